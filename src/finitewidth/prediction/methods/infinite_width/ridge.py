r"""Predictions at training points by networks that have not seen them, and what is chosen by them.

Networks differ from each other, and labels differ from the best prediction by noise of their own. The noise
variance $s^2$ that makes held-out labels most probable under $N(m_i, v_i + s^2)$ turns the spread $v$ of
networks into the uncertainty of a prediction; the ridge that makes them most probable is the one to use.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar

from finitewidth._base.arrays import AnyArray
from finitewidth._base.either import refuse_traced
from finitewidth._base.linalg.cholesky import SingularKernelError, factorise
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.algorithms.kernel_descent import Spectrum
from finitewidth.prediction.law.class_probabilities import LabelNoise, label_noise
from finitewidth.prediction.methods.infinite_width.trained import trained_distribution
from finitewidth.prediction.problem.kernel_modes import missed_labels
from finitewidth.prediction.problem.leave_one_out import LeftOut, trained_left_out
from finitewidth.prediction.problem.training_problem import ProblemKernels, TrainingProblem
from finitewidth.statistics.wide.kernels import Kernels

_FOLDS = 5
# Ridges that are tried, relative to the mean diagonal entry of the kernel.
_RIDGES = np.logspace(-7, 1.5, 18)
# Losses per point that differ by less are equally good; the larger ridge is then reached in fewer steps.
INDIFFERENT = 0.002
Pick = Callable[[np.ndarray, np.ndarray], int]


class RidgeChoice(NamedTuple):
    """The largest ridge under which held-out labels are as probable as under any, and all that were tried.

    `losses` are negative log likelihoods per point.
    """

    ridge: float
    noise: LabelNoise
    ridges: Float[np.ndarray, " tried"]
    losses: Float[np.ndarray, " tried"]


def held_out(problem: TrainingProblem, algorithm: SpectralAlgorithm, ridge: float | int = 0.0) -> LeftOut:
    """Prediction at every training point by networks trained without it.

    At the end of training each point is left out in turn, in closed form. Before, one fifth of the points
    is left out at a time.
    """
    if algorithm.converged:
        if problem.modes is not None:
            return problem.modes.left_out(ridge, problem.y)
        factor = factorise(problem.train.ntk, ridge, "the training NTK")
        return trained_left_out(factor, problem.train.nngp, problem.y)
    points, out = problem.y.shape
    mean, variance = np.empty((points, out)), np.empty(points)
    for fold in folds(points):
        law = trained_distribution(without(problem, fold), algorithm, ridge=float(ridge))
        mean[fold], variance[fold] = np.asarray(law.mean), np.asarray(law.std) ** 2
    return LeftOut(mean, variance)


def folds(points: int) -> list[Int[np.ndarray, " held"]]:
    """A fifth of the points each, in an order that is always the same."""
    if points < 2:
        raise ValueError(f"points can be held out of two or more, got {points}.")
    return np.array_split(np.random.default_rng(0).permutation(points), min(_FOLDS, points))


def without(problem: TrainingProblem, rows: Int[np.ndarray, " held"]) -> TrainingProblem:
    """The problem that trains on all other points and is tested on these."""
    kept = np.setdiff1d(np.arange(len(problem.y)), rows)

    def part(a: np.ndarray, b: np.ndarray) -> Kernels:
        return Kernels(problem.train.nngp[np.ix_(a, b)], problem.train.ntk[np.ix_(a, b)])

    x, y = problem.x_train, problem.y
    every = ProblemKernels(part(kept, kept), part(rows, kept), part(rows, rows))
    return TrainingProblem(problem.net, x[kept], y[kept], x[rows], every)


def observation_noise(left_out: LeftOut, y: Float[AnyArray, "train out"]) -> LabelNoise:
    """Variance of the labels beyond the spread of networks that makes the held-out labels most probable."""
    squared = (np.asarray(y) - left_out.mean) ** 2
    scale = float(squared.mean()) or 1.0

    def loss(log_noise: float) -> float:
        return _gaussian_loss(squared, left_out.variance + scale * np.exp(log_noise))

    found: Any = minimize_scalar(loss, bounds=(-20.0, 3.0), method="bounded", options={"xatol": 1e-3})
    return LabelNoise(scale * float(np.exp(found.x)), float(found.fun))


def fitted_noise(
    left_out: LeftOut, y: Float[AnyArray, "train out"], index: Int[np.ndarray, " train"] | None
) -> LabelNoise:
    """Noise of numbers, or of class labels when their `index` is given."""
    return observation_noise(left_out, y) if index is None else label_noise(left_out, index)


def choose_ridge(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    index: Int[np.ndarray, " train"] | None = None,
    pick: Pick | None = None,
) -> RidgeChoice:
    """The ridge that predicts left-out training points best; no test point is looked at.

    Parameters
    ----------
    problem
        Network and training data.
    algorithm
        Must run to the end of training.
    index
        Class of every training point, for classification.
    pick
        Which of the ridges, in rising order, and their losses per point; by default the largest ridge whose
        loss is as good as any.
    """
    refuse_traced("choose_ridge", problem)
    if not algorithm.converged:
        raise ValueError(
            "a ridge can be chosen for training to the end only; stopping early has its own effect."
        )
    # One eigendecomposition serves all ridges. The mean of its eigenvalues is that of the diagonal.
    problem = problem.diagonalised()
    ridges = _RIDGES * float(np.mean(problem.spectrum().eigenvalues))
    noises = [_noise_under(problem, algorithm, ridge, index) for ridge in ridges.tolist()]
    losses = np.array([noise.loss for noise in noises])
    best = _largest_of_the_best(losses) if pick is None else pick(ridges, losses)
    return RidgeChoice(float(ridges[best]), noises[best], ridges, losses)


def _noise_under(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    ridge: float,
    index: Int[np.ndarray, " train"] | None,
) -> LabelNoise:
    """The fitted noise; infinitely improbable where single precision cannot solve with so small a ridge."""
    try:
        left_out = held_out(problem, algorithm, ridge)
    except SingularKernelError:
        return LabelNoise(0.0, np.inf)
    return fitted_noise(left_out, problem.y, index)


def choose_noise(
    nngp: Float[AnyArray, "train train"],
    y: Float[AnyArray, "train out"],
    index: Int[np.ndarray, " train"] | None = None,
) -> float:
    """The observation noise under which left-out training points have the most probable labels.

    Parameters
    ----------
    nngp
        The prior's covariance of the training outputs.
    y
        Targets, one column per output.
    index
        Class of every training point, for classification.
    """
    refuse_traced("choose_noise", nngp, y)
    noises = _RIDGES * float(np.mean(np.diag(np.asarray(nngp))))
    spectrum = Spectrum.by_lapack(nngp)
    losses = np.array([_posterior_loss(spectrum, y, index, noise) for noise in noises.tolist()])
    return float(noises[_largest_of_the_best(losses)])


def _posterior_loss(
    spectrum: Spectrum, y: Float[AnyArray, "train out"], index: Int[np.ndarray, " train"] | None, noise: float
) -> float:
    missed, diagonal = missed_labels(spectrum, noise, y)
    left_out = LeftOut(np.asarray(y) - missed, np.maximum(1 / diagonal - noise, 0))
    if index is not None:
        return label_noise(left_out, index).loss
    return _gaussian_loss((np.asarray(y) - left_out.mean) ** 2, left_out.variance + noise)


def _gaussian_loss(squared: Float[np.ndarray, "train out"], variance: Float[np.ndarray, " train"]) -> float:
    """Negative log likelihood per point of errors with these squares."""
    variance = variance[:, None]
    return 0.5 * float(np.mean(np.sum(np.log(2 * np.pi * variance) + squared / variance, axis=1)))


def _largest_of_the_best(losses: Float[np.ndarray, " tried"]) -> int:
    return int(np.flatnonzero(losses <= losses.min() + INDIFFERENT)[-1])
