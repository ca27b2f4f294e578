"""What a visitor may set. Every value that reaches a computation has passed through one of these."""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any


@dataclasses.dataclass(frozen=True)
class Slider:
    """A number between two ends, on a grid of steps.

    With `log2` or `log10` the slider moves through powers: `low`, `high` and `step` are exponents, and
    `default` is a value. A `hidden` slider has no row of its own: a handle in a picture moves it (`pick`).
    """

    name: str
    label: str
    low: float | int
    high: float | int
    step: float | int
    default: float | int
    whole: bool = False
    log2: bool = False
    log10: bool = False
    hint: str = ""
    hidden: bool = False

    @property
    def base(self) -> int:
        """2 or 10 for a logarithmic slider, else 0."""
        return 2 if self.log2 else 10 if self.log10 else 0

    @property
    def counts(self) -> bool:
        """Whether every value is a whole number: `whole`, or 1, 2, 4, ..."""
        return self.whole or (self.log2 and self.low >= 0 and float(self.step).is_integer())

    def read(self, text: str) -> float | int:
        """The nearest allowed value; raises ValueError for anything that is not a finite number."""
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise ValueError(f"{self.name} must be a finite number, got {text[:20]!r}.")
        if self.base:
            value = math.log(value, self.base) if value > 0 else self.low
        steps = round((min(max(value, self.low), self.high) - self.low) / self.step)
        value = min(self.low + steps * self.step, self.high)
        if self.base:
            value = float(self.base) ** value
        return round(value) if self.counts else float(f"{value:.6g}")

    def ends(self) -> tuple[float | int, float | int]:
        """The smallest and the largest value."""
        low, high = (self.base**end if self.base else end for end in (self.low, self.high))
        return self.read(str(low)), self.read(str(high))


@dataclasses.dataclass(frozen=True)
class Choice:
    """One out of a fixed list of (value, text)."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    default: str
    hint: str = ""

    def read(self, text: str) -> str:
        """The value itself; raises ValueError for one that is not in the list."""
        if text not in dict(self.options):
            raise ValueError(
                f"{self.name} must be one of {', '.join(dict(self.options))}, got {text[:20]!r}."
            )
        return text

    def ends(self) -> tuple[str, ...]:
        """Every value."""
        return tuple(dict(self.options))


Control = Slider | Choice
State = dict[str, Any]  # a number for a slider, a word for a choice


def defaults(controls: tuple[Control, ...]) -> State:
    """The state of a page that nobody has touched."""
    return {c.name: c.default for c in controls}


def read_state(controls: tuple[Control, ...], query: Mapping[str, str]) -> State:
    """The state that a link describes: unknown names are ignored, missing ones take their default."""
    return {c.name: c.read(query[c.name]) if c.name in query else c.default for c in controls}
