"""A theorem that runs: its prediction, its measurement and the verdict between them."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.course._lab.estimate import Estimate
from finitewidth.course._lab.random_problem import RandomProblem

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from finitewidth.course._lab.figures import Curves
    from finitewidth.course._lab.teeth import Tooth

Scale = Literal["quick", "full"]
SCALES: tuple[Scale, ...] = ("quick", "full")
Setting = TypeVar("Setting")


Prediction = Mapping[str, np.ndarray]
Measurement = Mapping[str, Estimate]
# What a mistaken theory would say, from the setting and the right prediction.
Wrong = Callable[[Any, Any], Any]
# Where a bound lies, seen from the measured numbers.
Side = Literal["above", "below"]


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
    allowance, allowed_for
        The theory's own tolerance at this entry, and its name: a distance, or a part of the prediction where
        the criterion is a relative error.
    unforgiven
        What the statistic would be without the allowance.
    criterion
        How the distance is taken.
    limit
        Standard errors allowed for noise, from the rate of false alarms and the number of entries; 0 where
        nothing is random.
    entries
        How many numbers were compared.
    false_alarm
        Probability at most that noise alone makes the comparison fail; 0 where nothing is random.
    compared
        All that was compared: the predicted array, and the measurement of the same shape.
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
    allowance: float = 0.0
    allowed_for: str = ""
    unforgiven: float | None = None
    compared: tuple[np.ndarray, Estimate] | None = field(default=None, repr=False, compare=False)

    @property
    def holds(self) -> bool:
        return self.statistic <= self.tolerance


# What the comparison of a claim returns.
Checks = Iterable[Check]


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


def by_the_setting(*arguments: Any) -> Any:
    """Stands for the method that the setting has for a side of its claim."""
    raise NotImplementedError("the setting of a claim must define what the claim itself does not.")


@dataclass(frozen=True, kw_only=True)
class Claim(Generic[Setting]):
    """One theorem or observation, executable.

    A claim needs its sizes and three functions of them. Where all claims about one kind of setting share a
    function, it is a method of the setting: `theory(self)`, `measure(self, key)`, `compare(self, predicted,
    measured)` and, if there is one, `figure(self, predicted, measured)`.

    Attributes
    ----------
    id, title, statement, source
        What is claimed, in a few words and in full, and where it comes from.
    quick, full
        Sizes of the experiment: for a test run, and for the figures of the book. If they are a
        `RandomProblem`, both sides are about data drawn from the key of the run.
    theory
        Computes the prediction from the theory modules alone.
    measure
        Computes the same quantities from random networks or by direct integration, without theory.
    compare
        Turns both into checks.
    wrong
        Mistaken theories that the checks must reject: by the name of a prediction, functions of the setting
        and of the right value that give a wrong one.
    figure
        Draws both into one picture. `Curves`, or several of them, draw what `compare` compares along
        attributes of the setting; None draws measured against predicted entries.
    deterministic
        Whether the measurement ignores its key: enumeration or direct integration of a fixed problem.
    bounds
        Predictions that are bounds, and on which side of the measured numbers they lie.
    context
        What `theory` returns for the figure alone, or for other claims of the same setting: nothing is
        predicted of it, and `compare` does not get it.
    gaps
        Quantities with entries that are not numbers, and why.
    notices
        The factor by which a prediction may be wrong without failing, where it is worse than `NOTICES`: one
        for both scales, or one for each (see `finitewidth.course._lab.teeth`).
    units
        What counts as an error of 100 % in a prediction that is zero: 1 where nothing is said.
    chapter
        Title of the chapter, which the registry takes from the package of the claim's module.
    """

    id: str
    title: str
    statement: str
    source: str
    quick: Setting
    full: Setting
    theory: Callable[[Setting], Prediction] = by_the_setting
    measure: Callable[[Setting, PRNGKeyArray], Measurement] = by_the_setting
    compare: Callable[[Setting, Prediction, Measurement], Checks] = by_the_setting
    wrong: Mapping[str, Wrong | tuple[Wrong, ...]]
    figure: "Callable[[Setting, Prediction, Measurement], Figure] | Curves | tuple[Curves, ...] | None" = None
    deterministic: bool = False
    bounds: Mapping[str, Side] = field(default_factory=dict)
    context: tuple[str, ...] = ()
    gaps: Mapping[str, str] = field(default_factory=dict)
    notices: Mapping[str, float | tuple[float, float]] = field(default_factory=dict)
    units: Mapping[str, float] = field(default_factory=dict)
    chapter: str = ""

    def __post_init__(self):
        # A statement is one paragraph, however its lines are broken in a file.
        object.__setattr__(self, "statement", " ".join(self.statement.split()))
        for side in ("theory", "measure", "compare", "figure"):
            if getattr(self, side) in (by_the_setting, None):
                object.__setattr__(self, side, getattr(type(self.quick), side, getattr(self, side)))

    def setting(self, scale: Scale) -> Setting:
        """The sizes that belong to a scale."""
        if scale not in SCALES:
            raise ValueError(f"scale must be one of {', '.join(SCALES)}, got {scale!r}.")
        return self.quick if scale == "quick" else self.full

    def problem(self, scale: Scale, seed: int) -> tuple[Setting, PRNGKeyArray]:
        """What both sides are about, and the key of the measurement."""
        setting, key = self.setting(scale), jax.random.key(seed)
        if not isinstance(setting, RandomProblem):
            return setting, key
        problem_key, key = jax.random.split(key)
        return setting.drawn(problem_key), key

    def predict(self, problem: Setting) -> tuple[Prediction, Prediction]:
        """What the theory predicts, and what else it computed for the figure."""
        found = {name: np.asarray(value, dtype=float) for name, value in self.theory(problem).items()}
        unknown = (
            self.bounds.keys() | self.notices.keys() | self.units.keys() | {*self.context}
        ) - found.keys()
        if unknown:
            raise ValueError(
                f"claim {self.id} says something about {', '.join(sorted(unknown))}: no such prediction."
            )
        context = {name: found.pop(name) for name in self.context}
        return found, context

    def verdict(self, problem: Setting, prediction: Prediction, measurement: Measurement) -> Verdict:
        """The checks between a prediction and a measurement; what is not a number fails, compared or not."""
        checks = tuple(self.compare(problem, prediction, measurement))
        if not checks:
            raise ValueError(f"claim {self.id} makes no check: `compare` must return at least one.")
        return Verdict((*checks, *self._not_numbers(prediction, measurement)))

    def _not_numbers(self, prediction: Prediction, measurement: Measurement) -> Iterator[Check]:
        sides = (("predicted", prediction), ("measured", {n: e.value for n, e in measurement.items()}))
        for side, numbers in sides:
            for name, value in numbers.items():
                count = float(np.count_nonzero(np.isnan(value)))
                if count and name not in self.gaps:
                    words = f"entries of {name} that are {side} as not a number"
                    yield Check(words, 0.0, count, count, 0.5, "absolute error")

    def mistaken(self, problem: Setting, prediction: Prediction) -> Iterator[tuple[str, Prediction]]:
        """The prediction of every wrong theory, and what is wrong in it."""
        for name, theories in self.wrong.items():
            for wrong in theories if isinstance(theories, tuple) else (theories,):
                value = np.asarray(wrong(problem, prediction[name]))
                yield f"{name} by {wrong}", {**prediction, name: value}


@dataclass(frozen=True)
class Outcome:
    """A claim that has been run, with everything needed to publish or repeat its numbers."""

    claim: Claim
    scale: Scale
    seed: int
    problem: Any
    dtype: str
    seconds: float
    cpu_seconds: float
    versions: Mapping[str, str]
    prediction: Prediction
    measurement: Measurement
    verdict: Verdict
    context: Prediction = field(default_factory=dict)
    teeth: "tuple[Tooth, ...] | None" = None

    @property
    def holds(self) -> bool:
        return self.verdict.holds

    def draw(self) -> "Figure":
        """The picture of theory and measurement."""
        from finitewidth.course._lab.figures import Curves, along, entries

        title, figure, checks = self.claim.title, self.claim.figure, self.verdict.checks
        if figure is None:
            return entries(title, checks)
        if isinstance(figure, Curves | tuple):
            return along(title, figure if isinstance(figure, tuple) else (figure,), checks, self.problem)
        return figure(self.problem, {**self.prediction, **self.context}, self.measurement)
