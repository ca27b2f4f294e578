"""The ridge and the noise for many rows, chosen on as many of them as their kernels fit into memory."""

import numpy as np
from jaxtyping import Float, Int

from finitewidth.architecture import Layer
from finitewidth.arrays import AnyArray
from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.prediction.large.budget import direct_bytes
from finitewidth.prediction.large.system import some_rows
from finitewidth.prediction.selection.ridge import RidgeChoice, choose_noise, choose_ridge
from finitewidth.prediction.training_problem import TrainingProblem
from finitewidth.statistics.kernels import kernels

_MOST_ROWS, _LEAST_ROWS = 4_000, 500


def rows_to_choose_on(n: int, memory: int) -> Int[np.ndarray, " some"]:
    """Some of n rows, in order; their matrices fit into the bound on memory."""
    rows = some_rows(n, _MOST_ROWS)
    while len(rows) > _LEAST_ROWS and direct_bytes(len(rows), 1) > memory:
        rows = rows[::2]
    return rows


def ridge_by_some_rows(
    net: Layer,
    x: Float[AnyArray, "train ..."],
    y: Float[AnyArray, "train out"],
    algorithm: SpectralAlgorithm,
    index: Int[np.ndarray, " train"] | None,
    rows: Int[np.ndarray, " some"],
) -> RidgeChoice:
    """The ridge under which these rows, each left out in turn, are predicted best by the others."""
    problem = TrainingProblem.of(net, x[rows], y[rows], x[rows[:1]])
    return choose_ridge(problem, algorithm, None if index is None else index[rows])


def noise_by_some_rows(
    net: Layer,
    x: Float[AnyArray, "train ..."],
    y: Float[AnyArray, "train out"],
    index: Int[np.ndarray, " train"] | None,
    rows: Int[np.ndarray, " some"],
) -> float:
    """The observation noise that makes these rows, each left out in turn, most probable."""
    labels = None if index is None else index[rows]
    return choose_noise(kernels(net, x[rows]).nngp, y[rows], labels)
