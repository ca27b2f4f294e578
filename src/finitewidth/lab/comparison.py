"""How far a measurement may be from its prediction: one rule each for noise, rounding and finite width."""

import numpy as np

from finitewidth.lab.claim import Check
from finitewidth.lab.estimate import Estimate

# A Gaussian deviate exceeds four standard errors once in 16,000 comparisons.
Z_LIMIT = 4.0
_ROUNDING = 1e-12
# A bound may be reached exactly, up to the rounding of long iterations.
_SLACK = 1e-9


def depth_over_width(depth: np.ndarray | int, width: np.ndarray | int) -> np.ndarray:
    """Relative distance allowed between a finite network and its infinite-width limit.

    Corrections to the limit are a series in depth/width; its first coefficient is of order one for a
    single average (zero for the second moments of linear and ReLU networks, about -0.3 for critical
    tanh), so one unit of depth/width bounds it.
    """
    return np.asarray(np.asarray(depth) / np.asarray(width))


def z_score(
    name: str,
    predicted: np.ndarray | float,
    measured: Estimate,
    truncation: np.ndarray | float = 0.0,
) -> Check:
    """Standard errors between the two, beyond a truncation error known in advance.

    Parameters
    ----------
    name
        What is compared.
    predicted, measured
        Arrays of one shape; the entry that disagrees most decides.
    truncation
        Absolute distance that the theory itself allows, such as K depth/width.
    """
    predicted = np.broadcast_to(np.asarray(predicted, dtype=float), measured.value.shape)
    distance = np.abs(measured.value - predicted)
    excess = distance - truncation - _ROUNDING * np.abs(predicted)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(excess <= 0, 0.0, excess / measured.sem)
    rank = distance if np.all(excess <= 0) else z
    return _worst(name, predicted, measured.value, z, Z_LIMIT, "z-score", rank)


def relative_error(
    name: str, predicted: np.ndarray | float, measured: np.ndarray | float, tolerance: float
) -> Check:
    """Relative distance of two numbers, or of the entry of two arrays that disagrees most."""
    predicted, measured = _matched(predicted, measured)
    error = np.abs(measured / predicted - 1)
    return _worst(name, predicted, measured, error, tolerance, "relative error")


def absolute_error(
    name: str, predicted: np.ndarray | float, measured: np.ndarray | float, tolerance: float
) -> Check:
    """Distance of two numbers, or of the entry of two arrays that disagrees most."""
    predicted, measured = _matched(predicted, measured)
    return _worst(name, predicted, measured, np.abs(measured - predicted), tolerance, "absolute error")


def upper_bound(name: str, bound: np.ndarray | float, measured: np.ndarray | float) -> Check:
    """How far measured numbers go beyond what they may not exceed; nothing while they stay below."""
    bound, measured = _matched(bound, measured)
    excess = measured / bound - 1
    return _worst(name, bound, measured, np.maximum(excess, 0.0), _SLACK, "relative error", rank=excess)


def _matched(predicted: np.ndarray | float, measured: np.ndarray | float) -> tuple[np.ndarray, np.ndarray]:
    measured = np.asarray(measured, dtype=float)
    return np.broadcast_to(np.asarray(predicted, dtype=float), measured.shape), measured


def _worst(name, predicted, measured, statistic, tolerance, criterion, rank=None) -> Check:
    worst = int(np.argmax(np.nan_to_num(statistic if rank is None else rank, nan=np.inf)))
    pick = lambda array: float(np.ravel(array)[worst])
    return Check(name, pick(predicted), pick(measured), pick(statistic), float(tolerance), criterion)
