r"""When to stop training: where training points that were left out are predicted best.

One fifth of the points is left out at a time. The kernel of the others is diagonalised once; in its
eigenbasis the law at any time is made of the gains of the modes, so all times are tried at once.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from finitewidth._base.linalg.eigenvalues import largest_eigenvalue
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.algorithms.kernel_descent import Spectrum
from finitewidth.prediction.law.class_probabilities import LabelNoise
from finitewidth.prediction.methods.infinite_width.ridge import INDIFFERENT, fitted_noise, folds, without
from finitewidth.prediction.problem.leave_one_out import LeftOut
from finitewidth.prediction.problem.training_problem import TrainingProblem

# Times that are tried, in units of the time in which the fastest mode is learnt.
_TIMES = np.geomspace(1.0, 1e5, 41)


class StopChoice(NamedTuple):
    """The earliest stop at which held-out labels are as probable as at any, and all that were tried.

    `at` is a number of steps, or a time; `losses` are negative log likelihoods per point.
    """

    at: float | int
    noise: LabelNoise
    tried: Float[np.ndarray, " tried"]
    losses: Float[np.ndarray, " tried"]


def choose_stop(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    index: Int[np.ndarray, " train"] | None = None,
    *,
    ridge: float | int = 0.0,
) -> StopChoice:
    """The number of steps, or the time, that predicts left-out training points best.

    Parameters
    ----------
    problem
        Network and training data; no test point is looked at.
    algorithm
        `GradientDescent(eta)` or `GradientFlow()`; where it stops does not matter here.
    index
        Class of every training point, for classification.
    ridge
        As in `predict`.
    """
    fastest = largest_eigenvalue(problem.train.ntk) + ridge
    algorithm = algorithm.resolved(fastest)
    ticking = algorithm.clock()
    at = _TIMES / (ticking.rate * fastest)
    times = at.tolist() if ticking.continuous else np.unique(np.ceil(at)).astype(int).tolist()
    stops = [algorithm.stopped(t) for t in times]
    noises = [fitted_noise(left_out, problem.y, index) for left_out in _held_out(problem, stops, ridge)]
    losses = np.array([noise.loss for noise in noises])
    best = int(np.flatnonzero(losses <= losses.min() + INDIFFERENT)[0])
    return StopChoice(times[best], noises[best], np.asarray(times, dtype=float), losses)


def _held_out(problem: TrainingProblem, stops: list[SpectralAlgorithm], ridge: float | int) -> list[LeftOut]:
    """Predictions at every training point by networks trained without its fold, at every stop."""
    points, out = problem.y.shape
    found = [LeftOut(np.empty((points, out)), np.empty(points)) for _ in stops]
    for fold in folds(points):
        part = without(problem, fold)
        spectrum = Spectrum.of(part.train.ntk).on_host()
        V = np.asarray(spectrum.eigenvectors)
        reach, labels = np.asarray(part.test_train.ntk) @ V, V.T @ np.asarray(part.y)
        start, shared = np.diag(np.asarray(part.test.nngp)), np.asarray(part.test_train.nngp) @ V
        K = V.T @ np.asarray(part.train.nngp) @ V
        for left_out, stop in zip(found, stops, strict=True):
            smoother = reach * np.asarray(stop.gain(spectrum.eigenvalues + ridge))
            left_out.mean[fold] = smoother @ labels
            spread = start - 2 * np.sum(smoother * shared, axis=1) + np.sum((smoother @ K) * smoother, axis=1)
            left_out.variance[fold] = np.maximum(spread, 0.0)
    return found
