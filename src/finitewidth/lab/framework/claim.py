"""A theorem that runs: its prediction, its measurement and the verdict between them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.figure import Figure

from finitewidth.lab.framework.estimate import Estimate

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = ("quick", "full")
Setting = TypeVar("Setting")


Prediction = Mapping[str, np.ndarray]
Measurement = Mapping[str, Estimate]


@dataclass(frozen=True)
class Check:
    """One comparison: it holds while the statistic stays within the tolerance.

    Attributes
    ----------
    name
        What is compared.
    predicted, measured, sem
        The entry that came closest to its tolerance, with the standard error of its measurement.
    statistic, tolerance
        Their distance by the criterion, and what is allowed: the theory's own tolerance, fixed in advance,
        and `limit` standard errors for noise. A z-score counts standard errors beyond the theory's own.
    criterion
        How the distance is taken.
    limit
        Standard errors allowed for noise, from the rate of false alarms and the number of entries; 0 where
        nothing is random.
    entries
        How many numbers were compared.
    false_alarm
        Probability at most that noise alone makes the comparison fail; 0 where nothing is random.
    """

    name: str
    predicted: float
    measured: float
    statistic: float
    tolerance: float
    criterion: Literal["z-score", "relative error", "absolute error"]
    sem: float = 0.0
    limit: float = 0.0
    entries: int = 1
    false_alarm: float = 0.0

    @property
    def holds(self) -> bool:
        return self.statistic <= self.tolerance


@dataclass(frozen=True)
class Verdict:
    """The checks of one claim; the claim holds when all of them do."""

    checks: tuple[Check, ...]

    @property
    def holds(self) -> bool:
        return all(check.holds for check in self.checks)

    @property
    def false_alarm(self) -> float:
        """Probability at most that noise alone makes the claim fail."""
        return sum(check.false_alarm for check in self.checks)

    @property
    def decisive(self) -> Check:
        """The check that came closest to its tolerance, or went furthest beyond it."""
        strain = [check.statistic / check.tolerance for check in self.checks]
        return self.checks[int(np.argmax(np.nan_to_num(strain, nan=np.inf)))]


@dataclass(frozen=True)
class Claim(Generic[Setting]):
    """One theorem or observation, executable.

    Attributes
    ----------
    id, title, chapter, statement, source
        What is claimed, in a few words and in full, and where it comes from.
    quick, full
        Sizes of the experiment: for a test run, and for the figures of the book.
    theory
        Computes the prediction from the theory modules alone.
    measure
        Computes the same quantities from random networks or by direct integration, without theory.
    compare
        Turns both into a verdict.
    figure
        Draws both into one picture.
    draw
        Turns the sizes and a random key into the problem that both sides are about: the setting with the
        seed of its data. `theory`, `measure`, `compare` and `figure` get it in place of the sizes. None if
        there are no random data, or the measurement alone is random.
    deterministic
        Whether the measurement ignores its key: enumeration or direct integration of a fixed problem.
    """

    id: str
    title: str
    chapter: str
    statement: str
    source: str
    quick: Setting
    full: Setting
    theory: Callable[[Setting], Prediction]
    measure: Callable[[Setting, PRNGKeyArray], Measurement]
    compare: Callable[[Setting, Prediction, Measurement], Verdict]
    figure: Callable[[Setting, Prediction, Measurement], Figure]
    draw: Callable[[Setting, PRNGKeyArray], Setting] | None = None
    deterministic: bool = False

    def setting(self, scale: Scale) -> Setting:
        """The sizes that belong to a scale."""
        if scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}.")
        return self.quick if scale == "quick" else self.full

    def problem(self, scale: Scale, seed: int) -> tuple[Setting, PRNGKeyArray]:
        """What both sides are about, and the key of the measurement."""
        setting, key = self.setting(scale), jax.random.key(seed)
        if self.draw is None:
            return setting, key
        problem_key, key = jax.random.split(key)
        return self.draw(setting, problem_key), key


@dataclass(frozen=True)
class Outcome:
    """A claim that has been run, with everything needed to publish or repeat its numbers."""

    claim: Claim
    scale: Scale
    seed: int
    problem: Any
    dtype: str
    seconds: float
    versions: Mapping[str, str]
    prediction: Prediction
    measurement: Measurement
    verdict: Verdict

    @property
    def holds(self) -> bool:
        return self.verdict.holds

    def draw(self) -> Figure:
        """The picture of theory and measurement."""
        return self.claim.figure(self.problem, self.prediction, self.measurement)
