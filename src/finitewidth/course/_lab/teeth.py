"""Which errors of the theory a claim notices: each prediction is made wrong, and the verdict asked again.

Theory and measurement run once; only the comparison is repeated. A prediction is made larger and smaller by
the factors of a ladder and its sign is turned. One that is zero is moved by the parts of its unit that belong
to the factors: 1.3 stands for 0.3 of it. A bound is made wrong on its own side, and may be loose.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np

from finitewidth.course._lab.claim import SCALES, Claim, Measurement, Prediction, Scale, Side

Setting = TypeVar("Setting")

LADDER = (1.01, 1.03, 1.1, 1.3, 2.0, 5.0)
# Bounds need not be close: from here on they say how loose they are.
LOOSE = (*LADDER, 10.0, 100.0, 1000.0)
# What a claim notices in each prediction unless it says otherwise, and in each bound.
NOTICES = {"quick": 1.3, "full": 1.1}
BOUND = 5.0


@dataclass(frozen=True)
class Tooth:
    """What the verdict of a claim notices in one prediction.

    Attributes
    ----------
    quantity
        The name of the prediction.
    larger, smaller
        The smallest factor of the ladder from which on a prediction that is too large, or too small, fails;
        infinite if none does.
    sign
        Whether the other sign fails.
    bound
        On which side of the measured numbers the prediction lies, if it is a bound.
    unit
        What counts as an error of 100 % in a prediction that is zero; None for all others.
    stated
        The factor that the claim says it notices.
    """

    quantity: str
    larger: float
    smaller: float
    sign: bool
    bound: Side | None
    unit: float | None
    stated: float

    @property
    def notices(self) -> float:
        """The factor that is noticed in both directions; for a bound on the side where it is wrong."""
        if self.bound is not None:
            return self.smaller if self.bound == "above" else self.larger
        return max(self.larger, self.smaller)

    @property
    def sharp(self) -> bool:
        """Whether the claim notices what it says it notices."""
        return self.notices <= self.stated and self.sign


def examined(
    claim: Claim[Setting], scale: Scale, problem: Setting, prediction: Prediction, measurement: Measurement
) -> Iterator[Tooth]:
    """What the verdict on a measurement notices in each prediction."""

    for name, right in prediction.items():
        bound, unit = claim.bounds.get(name), None if np.any(right) else claim.units.get(name, 1.0)

        def fails(value: np.ndarray, name: str = name) -> bool:
            with np.errstate(all="ignore"):
                return not claim.verdict(problem, {**prediction, name: value}, measurement).holds

        noticed = partial(_noticed, fails, right, unit, LOOSE if bound else LADDER)
        yield Tooth(
            quantity=name,
            larger=np.inf if bound == "above" else noticed(up=True),
            smaller=np.inf if bound == "below" else noticed(up=False),
            sign=bound is not None or unit is not None or fails(np.asarray(-right)),
            bound=bound,
            unit=unit,
            stated=stated(claim, scale, name),
        )


def stated(claim: Claim, scale: Scale, name: str) -> float:
    """The factor that a claim says it notices in a prediction."""
    found = claim.notices.get(name, BOUND if name in claim.bounds else NOTICES[scale])
    return found[SCALES.index(scale)] if isinstance(found, tuple) else found


def made_wrong(right: np.ndarray, factor: float, up: bool, unit: float | None) -> np.ndarray:
    """Every entry further up or down by a factor; zeros by a part of their unit."""
    if unit is not None:
        return np.asarray(right + (factor - 1) * unit * (1 if up else -1))
    return np.where((right > 0) == up, right * factor, right / factor)


def _noticed(
    fails: Callable[[np.ndarray], bool],
    right: np.ndarray,
    unit: float | None,
    ladder: tuple[float, ...],
    up: bool,
) -> float:
    """The smallest factor that fails, if the largest does: those between are taken to do as these two."""
    at = lambda factor: fails(made_wrong(right, factor, up, unit))
    first = next((factor for factor in ladder if at(factor)), np.inf)
    return first if first >= ladder[-1] or at(ladder[-1]) else np.inf


def words_of(tooth: Tooth) -> str:
    """One line about a prediction: what is noticed, and what should be."""
    side = {"above": " (an upper bound)", "below": " (a lower bound)", None: ""}[tooth.bound]
    missed = "" if tooth.sign else ", the other sign passes"
    return f"{tooth.quantity}{side}: notices {factor_words(tooth.notices)}, states {tooth.stated:g}{missed}"


def factor_words(factor: float | None) -> str:
    """A factor of the ladder; a record has None for what is not finite."""
    return "nothing" if factor is None or np.isinf(factor) else f"{factor:g}"
