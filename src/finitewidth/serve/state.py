"""What a visitor may set. Every value that reaches a computation has passed through one of these."""

import dataclasses
import math
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True)
class Slider:
    """A number between two ends, on a grid of steps; `log2` sliders move through powers of two."""

    name: str
    label: str
    low: float
    high: float
    step: float
    default: float
    whole: bool = False
    log2: bool = False
    hint: str = ""

    def read(self, text: str) -> float | int:
        """The nearest allowed value; raises ValueError for anything that is not a finite number."""
        value = float(text)
        if not math.isfinite(value):
            raise ValueError(f"{self.name} must be a finite number, got {text[:20]!r}.")
        if self.log2:
            value = math.log2(max(value, 2.0**self.low))
        steps = round((min(max(value, self.low), self.high) - self.low) / self.step)
        value = self.low + steps * self.step
        if self.log2:
            return int(2**value)
        return int(round(value)) if self.whole else round(value, 6)


@dataclasses.dataclass(frozen=True)
class Choice:
    """One out of a fixed list of names."""

    name: str
    label: str
    options: tuple[tuple[str, str], ...]
    default: str
    hint: str = ""

    def read(self, text: str) -> str:
        if text not in dict(self.options):
            raise ValueError(
                f"{self.name} must be one of {', '.join(dict(self.options))}, got {text[:20]!r}."
            )
        return text


Control = Slider | Choice
State = dict[str, float | int | str]


def read_state(controls: tuple[Control, ...], query: Mapping[str, str]) -> State:
    """The state that a link describes: unknown names are ignored, missing ones take their default."""
    return {c.name: c.read(query[c.name]) if c.name in query else c.default for c in controls}
