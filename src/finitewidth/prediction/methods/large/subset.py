"""The ridge and the noise for many rows, chosen on as many of them as their kernels fit into memory."""

import functools

import numpy as np
from jaxtyping import Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.methods.infinite_width.ridge import (
    INDIFFERENT,
    RidgeChoice,
    choose_noise,
    choose_ridge,
)
from finitewidth.prediction.methods.large.budget import direct_bytes
from finitewidth.prediction.methods.large.system import RIDGE_FOR_SINGLE, some_rows
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.wide.kernels import kernels

_MOST_ROWS, _LEAST_ROWS = 4_000, 500
# More rows want a smaller ridge, and the solver is as quick with it: losses are told apart more finely.
_FINER = 0.1


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
    """The ridge under which these rows, each left out in turn, are predicted best by the others.

    One that lets the tiles be single precision is kept as long as its loss is as good as any.
    """
    problem = TrainingProblem.of(net, x[rows], y[rows], x[rows[:1]])
    mean = float(np.mean(np.diag(np.asarray(problem.train.ntk))))
    pick = functools.partial(smallest_of_the_best, RIDGE_FOR_SINGLE * mean)
    return choose_ridge(problem, algorithm, None if index is None else index[rows], pick)


def smallest_of_the_best(
    single: float, ridges: Float[np.ndarray, " tried"], losses: Float[np.ndarray, " tried"]
) -> int:
    """The largest ridge with nearly the least loss, or one above `single` whose loss is as good as any."""
    worse = losses - losses.min()
    best = np.flatnonzero(worse <= _FINER * INDIFFERENT)[-1]
    above = np.flatnonzero((ridges >= single) & (worse <= INDIFFERENT))
    return int(max([best, *above[:1]]))


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
