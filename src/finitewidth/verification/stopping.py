r"""Gradient descent that real networks can do: when is the end of training near enough?

Training to the end takes infinitely many steps. From step t on, the mean prediction still moves by
$\Theta_{BA}\,(g_\infty(\Theta_{AA}) - g_t(\Theta_{AA}))\,y$ with the gain g of the algorithm; once that is a
small part of the standard error of the comparison, nothing would be seen of it.

With a ridge r the features that training has moved relax as $(1-\eta r)^t$, slower than any prediction of
infinite width: that law may have settled long before its correction in 1/width has.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.pointwise import PointwiseLaw
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.prediction.selection.certificates import first_step

# The law may still move by this many standard errors of the comparison, or by this part of the labels.
_SHARE_OF_ERROR, _SHARE_OF_LABELS = 0.1, 1e-4
# Moved features may have such a share of their way to go: less where networks are many enough to see it.
_LEAST_UNSETTLED, _MOST_UNSETTLED = 1e-3, 1e-2


class Stop(NamedTuple):
    """A finite training that stands for the one that was predicted.

    `distance_to_end` is the root mean square by which the mean prediction would still move on the way to the
    end, in standard errors of the comparison; zero when the end itself is finite. `unsettled` is the share of
    their way that moved features have still to go under a ridge; zero where that was not asked for.
    """

    algorithm: GradientDescent
    distance_to_end: float
    unsettled: float = 0.0


class _Approach(NamedTuple):
    """The mean prediction as a function of the step number, in the basis of the kernel's eigenvectors."""

    eigenvalues: Float[np.ndarray, " train"]
    reach: Float[np.ndarray, "test train"]
    labels: Float[np.ndarray, "train out"]

    def remaining(self, algorithm: GradientDescent, steps: int) -> float:
        gains = [algorithm.stopped(at).gain(self.eigenvalues) for at in (math.inf, steps)]
        return _rms(self.reach @ ((gains[0] - gains[1])[:, None] * self.labels))


def stop(
    problem: TrainingProblem,
    law: TrainedDistribution | PointwiseLaw,
    algorithm: SpectralAlgorithm,
    ridge: float | int,
    networks: int,
    most_steps: int,
    *,
    settle: bool = False,
) -> Stop:
    """The descent to do instead of `algorithm`, with at most `most_steps` steps where the end is infinite.

    `settle` waits for features that a ridge pulls back, which the mean of infinite width does not show; the
    law must have a correction in 1/width.
    """
    spectrum = problem.spectrum()
    largest = float(spectrum.eigenvalues[-1]) + ridge
    descent = algorithm.descent(largest)
    if not descent.converged:
        return Stop(descent, 0.0)
    V, y, reach = np.asarray(spectrum.eigenvectors), np.asarray(problem.y), problem.reach(spectrum)
    rounding = float(np.finfo(V.dtype).eps) * largest
    approach = _Approach(np.maximum(spectrum.eigenvalues + ridge, rounding), reach, V.T @ y)
    error = _rms(np.asarray(law.std)) / math.sqrt(networks)
    tolerance = max(_SHARE_OF_ERROR * error, _SHARE_OF_LABELS * _rms(y))
    steps = first_step(lambda t: approach.remaining(descent, t) <= tolerance, most_steps)
    pull = float(descent.eta) * ridge if settle else 0.0
    if pull > 0:
        assert isinstance(law, TrainedDistribution)
        seen = _SHARE_OF_ERROR * error / max(_rms(np.asarray(law.mean_correction)), np.finfo(float).tiny)
        share = min(max(seen, _LEAST_UNSETTLED), _MOST_UNSETTLED)
        settled = math.ceil(math.log(share) / math.log1p(-pull))
        steps = max(steps, min(settled, most_steps))
    left = approach.remaining(descent, steps) / max(error, tolerance)
    return Stop(descent.stopped(steps), left, (1 - pull) ** steps if pull > 0 else 0.0)


def _rms(values: Float[np.ndarray, "..."]) -> float:
    return float(np.sqrt(np.mean(values**2)))
