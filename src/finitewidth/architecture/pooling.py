"""Layers that average over positions, or line them up: pooling and Flatten."""

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PRNGKeyArray

from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.parametrisation import Geometry
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision
from finitewidth.architecture.windows import Windowed, as_windows


class Rearrangement(Layer):
    """A layer without parameters that acts on positions and leaves channels apart."""

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> tuple[()]:
        return ()

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> tuple[()]:
        return ()

    def channels(self, entering: int | None) -> int | None:
        return entering


@word("AvgPool")
class AveragePool(Windowed, Rearrangement):
    """The average of every channel over windows of positions.

    Parameters
    ----------
    window
        Size of the window along each axis of positions.
    strides
        Positions from one window to the next; by default the window, so that windows do not overlap.
    padding
        "VALID" (none), "SAME" (zeros) or "CIRCULAR" (the opposite side). Zeros count in the average.
    """

    def __init__(
        self, window: int | Sequence[int], strides: int | Sequence[int] | None = None, padding: str = "VALID"
    ):
        self.windows = as_windows(window, strides, padding)

    @classmethod
    def from_entry(cls, entry: Entry) -> "AveragePool":
        return cls(entry.value("window"), entry.value("strides"), entry.text("padding", "VALID"))

    def entry(self) -> dict[str, Any]:
        window = {"window": list(self.window), "strides": list(self.strides), "padding": self.padding}
        return {"layer": "AvgPool", **window}

    def leaving(self, entering: Shape) -> Shape:
        axes = self.windows.axes("AveragePool", entering)
        return (*(axis.leaving for axis in axes), entering[-1])

    def apply(self, params: tuple[()], x: Array) -> Array:
        padded = self.windows.padded(x, self.windows.axes("AveragePool", x.shape[1:]), 1)
        around = lambda numbers: (1, *numbers, 1)
        sizes, strides = around(self.windows.sizes), around(self.windows.strides)
        total = lax.reduce_window(padded, jnp.zeros((), x.dtype), lax.add, sizes, strides, "VALID")
        return total / self.windows.taps


@word("GlobalAvgPool")
class GlobalAveragePool(Rearrangement):
    """The average of every channel over all positions."""

    @classmethod
    def from_entry(cls, entry: Entry) -> "GlobalAveragePool":
        return cls()

    def entry(self) -> dict[str, Any]:
        return {"layer": "GlobalAvgPool"}

    def leaving(self, entering: Shape) -> Shape:
        if len(entering) < 2:
            raise ValueError(
                "GlobalAveragePool averages over positions and needs inputs (*positions, channels); "
                f"got {entering}."
            )
        return entering[-1:]

    def apply(self, params: tuple[()], x: Array) -> Array:
        self.leaving(x.shape[1:])
        return x.mean(axis=tuple(range(1, x.ndim - 1)))


@word("Flatten")
class Flatten(Rearrangement):
    """All positions and channels as one list of channels, in row-major order."""

    @classmethod
    def from_entry(cls, entry: Entry) -> "Flatten":
        return cls()

    def entry(self) -> dict[str, Any]:
        return {"layer": "Flatten"}

    def channels(self, entering: int | None) -> None:
        return None

    def leaving(self, entering: Shape) -> Shape:
        return (math.prod(entering),)

    def apply(self, params: tuple[()], x: Array) -> Array:
        return x.reshape(len(x), -1)
