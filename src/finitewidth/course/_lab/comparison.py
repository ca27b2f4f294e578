"""How far a measurement may be from its prediction: a tolerance of the theory's own, and noise beyond it."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.special import ndtri, stdtrit

from finitewidth.course._lab.claim import Check, Measurement, Prediction
from finitewidth.course._lab.estimate import Estimate, Numbers, exact

# How often a comparison with noise fails although the claim is true, at most. A run of all claims makes a few
# hundred of them, and up to 500 fewer than one such run in a hundred has a false alarm.
FALSE_ALARM = 2e-5
_ROUNDING = 1e-12
# A bound may be reached exactly, up to the rounding of long iterations.
_SLACK = 1e-9

Measured = Estimate | Numbers
Criterion = Literal["z-score", "relative error", "absolute error"]
# What an allowance is for, where a comparison does not say it more closely.
LEFT_OUT = "orders that the theory leaves out"
TOLERANCE = "the tolerance of the claim"


class Allowance(NamedTuple):
    """What a comparison forgives beside noise: a name, its size, and the statistic without it."""

    name: str
    size: Numbers
    unforgiven: Numbers


def noise_limit(entries: int, dof: Numbers = np.inf, sides: Literal[1, 2] = 2) -> np.ndarray:
    """Standard errors that the worst of so many entries exceeds with the probability `FALSE_ALARM` at most.

    Each entry gets an equal share of the probability (Bonferroni), in Student's distribution with the degrees
    of freedom of its standard error; a bound is missed on one side only.
    """
    tail, dof = FALSE_ALARM / (sides * max(entries, 1)), np.asarray(dof, dtype=float)
    return np.where(np.isinf(dof), -ndtri(tail), -stdtrit(dof, tail))


def depth_over_width(depth: np.ndarray | int, width: np.ndarray | int) -> np.ndarray:
    """Relative distance allowed between a finite network and its infinite-width limit.

    Corrections to the limit are a series in depth/width; its first coefficient is of order one for a
    single average (zero for the second moments of linear and ReLU networks, about -0.3 for critical
    tanh), so one unit of depth/width bounds it.
    """
    return np.asarray(np.asarray(depth) / np.asarray(width))


def z_score(
    name: str, predicted: Numbers, measured: Estimate, truncation: Numbers = 0.0, allowed_for: str = LEFT_OUT
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
    allowed_for
        What it is allowed for.
    """
    predicted, measured = _matched(predicted, measured)
    limit = noise_limit(_noisy(measured), measured.dof)
    distance = np.abs(measured.value - predicted)
    excess = distance - truncation - _ROUNDING * np.abs(predicted)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(excess <= 0, 0.0, excess / measured.sem)
        unforgiven = np.where(distance <= _ROUNDING * np.abs(predicted), 0.0, distance / measured.sem)
    rank = distance if np.all(excess <= 0) else z / limit
    allowance = Allowance(allowed_for, truncation, unforgiven)
    return _worst(name, "z-score", predicted, measured, z, limit, limit, rank, allowance)


def relative_error(
    name: str, predicted: Numbers, measured: Measured, tolerance: Numbers, allowed_for: str = TOLERANCE
) -> Check:
    """Relative distance of two numbers, or of the entry of two arrays that disagrees most.

    It may exceed the tolerance by noise, if the measurement has a standard error; `allowed_for` says what the
    tolerance is for.
    """
    predicted, measured = _matched(predicted, measured)
    limit = noise_limit(_noisy(measured), measured.dof)
    error = np.abs(measured.value / predicted - 1)
    allowed = tolerance + limit * measured.sem / np.abs(predicted)
    allowance = Allowance(allowed_for, tolerance, error)
    return _worst(
        name, "relative error", predicted, measured, error, allowed, limit, error / allowed, allowance
    )


def absolute_error(
    name: str, predicted: Numbers, measured: Measured, tolerance: Numbers, allowed_for: str = TOLERANCE
) -> Check:
    """Distance of two numbers, or of the entry of two arrays that disagrees most; noise as above."""
    predicted, measured = _matched(predicted, measured)
    limit = noise_limit(_noisy(measured), measured.dof)
    error = np.abs(measured.value - predicted)
    allowed = tolerance + limit * measured.sem
    allowance = Allowance(allowed_for, tolerance, error)
    return _worst(
        name, "absolute error", predicted, measured, error, allowed, limit, error / allowed, allowance
    )


def compare_each(
    texts: Mapping[str, str],
    by: Callable[[str, Any, Any, Any], Check] = z_score,
    within: float | Callable[[Any, np.ndarray], Numbers] = 0.0,
) -> Callable[[Any, Prediction, Measurement], list[Check]]:
    """A comparison for `Claim`: one check for each of the named quantities.

    Parameters
    ----------
    texts
        Names of predictions and of their measurements, and what each check is called.
    by
        `z_score`, `relative_error` or `absolute_error`.
    within
        Truncation error or tolerance, or a function of the setting and of the prediction that gives it.
    """

    def compare(setting: Any, predicted: Prediction, measured: Measurement) -> list[Check]:
        allowed = {name: within(setting, predicted[name]) if callable(within) else within for name in texts}
        return [by(text, predicted[name], measured[name], allowed[name]) for name, text in texts.items()]

    return compare


def upper_bound(name: str, bound: Numbers, measured: Measured) -> Check:
    """How far measured numbers go beyond what they may not exceed; nothing while they stay below."""
    return _beyond(name, bound, measured, 1)


def lower_bound(name: str, bound: Numbers, measured: Measured) -> Check:
    """How far measured numbers fall short of what they must reach; nothing while they stay above."""
    return _beyond(name, bound, measured, -1)


def _beyond(name: str, bound: Numbers, measured: Measured, side: Literal[1, -1]) -> Check:
    """The part of a bound by which measured numbers are on its wrong side."""
    bound, measured = _matched(bound, measured)
    limit = noise_limit(_noisy(measured), measured.dof, sides=1)
    excess = side * (measured.value - bound) / np.abs(bound)
    allowed = _SLACK + limit * measured.sem / np.abs(bound)
    over = np.maximum(excess, 0.0)
    allowance = Allowance("rounding", _SLACK, over)
    return _worst(name, "relative error", bound, measured, over, allowed, limit, excess / allowed, allowance)


def _matched(predicted: Numbers, measured: Measured) -> tuple[np.ndarray, Estimate]:
    if not isinstance(measured, Estimate):
        measured = exact(measured)
    return np.broadcast_to(np.asarray(predicted, dtype=float), measured.value.shape), measured


def _noisy(measured: Estimate) -> int:
    """How many entries have noise."""
    return int(np.count_nonzero(measured.sem))


def _worst(
    name: str,
    criterion: Criterion,
    predicted: np.ndarray,
    measured: Estimate,
    statistic: Numbers,
    tolerance: Numbers,
    limit: Numbers,
    rank: Numbers,
    allowance: Allowance,
) -> Check:
    """The entry that came closest to its tolerance; one without a finite standard error is beyond any."""
    broken = ~np.isfinite(measured.sem)
    statistic = np.where(broken, np.nan, statistic)
    worst = int(np.argmax(np.nan_to_num(np.where(broken, np.nan, rank), nan=np.inf)))
    pick = lambda array: float(np.broadcast_to(array, measured.value.shape).ravel()[worst])
    noisy = _noisy(measured)
    return Check(
        name=name,
        predicted=pick(predicted),
        measured=pick(measured.value),
        statistic=pick(statistic),
        tolerance=pick(tolerance),
        criterion=criterion,
        sem=pick(measured.sem),
        limit=pick(limit) if noisy else 0.0,
        entries=measured.value.size,
        false_alarm=FALSE_ALARM if noisy else 0.0,
        allowance=(size := pick(allowance.size)),
        allowed_for=allowance.name if size else "",
        unforgiven=pick(allowance.unforgiven),
        compared=(predicted, measured),
    )
