r"""Classification by the largest output: how often each class wins, and how sure to be of it.

Outputs $m_c + s\,\epsilon_c$ with independent standard normal noise elect class c with probability
$\int \phi(u)\prod_{j\ne c}\Phi(u + (m_c-m_j)/s)\,du$, one integral for every class.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import minimize_scalar
from scipy.special import log_ndtr

from finitewidth.prediction.problem.leave_one_out import LeftOut

_NODES, _WEIGHTS = np.polynomial.hermite_e.hermegauss(48)
_WEIGHTS = _WEIGHTS / _WEIGHTS.sum()
_ROWS = 2048


class LabelNoise(NamedTuple):
    """A variance to add to the networks' own, and the negative log likelihood per point with it."""

    variance: float
    loss: float


def winning_probability(
    mean: Float[np.ndarray, "points classes"], variance: Float[np.ndarray, " points"]
) -> Float[np.ndarray, "points classes"]:
    """Probability that each class has the largest output; rows add up to one."""
    classes = range(mean.shape[1])
    every = [_winning(mean, variance, np.full(len(mean), c)) for c in classes]
    probability = np.stack(every, axis=1)
    return probability / probability.sum(axis=1, keepdims=True)


def _winning(mean: np.ndarray, variance: np.ndarray, index: np.ndarray) -> np.ndarray:
    """Probability that the class `index[i]` has the largest output at point i."""
    scale = np.sqrt(np.maximum(variance, np.finfo(float).tiny))
    probability = np.empty(len(mean))
    for start in range(0, len(mean), _ROWS):
        rows = slice(start, start + _ROWS)
        own = np.take_along_axis(mean[rows], index[rows, None], axis=1)
        ahead = (own - mean[rows]) / scale[rows, None]
        np.put_along_axis(ahead, index[rows, None], np.inf, axis=1)
        beaten = log_ndtr(ahead[:, None, :] + _NODES[:, None]).sum(axis=-1)
        probability[rows] = np.exp(beaten) @ _WEIGHTS
    return probability


def label_noise(left_out: LeftOut, index: Int[np.ndarray, " points"]) -> LabelNoise:
    """Variance to add to the networks' own so that points left out get their labels most probably.

    Parameters
    ----------
    left_out
        Predictions at each training point by networks trained on the others.
    index
        Class of each point.
    """
    mean = left_out.mean.astype(float)
    scale = float(np.mean((mean - mean.mean(axis=1, keepdims=True)) ** 2)) or 1.0
    smallest = np.finfo(float).tiny

    def loss(log_noise: float) -> float:
        probability = _winning(mean, left_out.variance + scale * np.exp(log_noise), index)
        return -float(np.log(np.maximum(probability, smallest)).mean())

    found: Any = minimize_scalar(loss, bounds=(-14.0, 5.0), method="bounded", options={"xatol": 0.02})
    return LabelNoise(scale * float(np.exp(found.x)), float(found.fun))
