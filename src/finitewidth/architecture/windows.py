"""Windows that slide over the positions of an input: their sizes, strides and padding."""

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, get_args

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array

from finitewidth.architecture.layer import Layer, Shape, as_shape

Padding = Literal["SAME", "VALID", "CIRCULAR"]
PADDINGS: tuple[str, ...] = get_args(Padding)


class Axis(NamedTuple):
    """One axis of positions: how many enter and leave, and the padding at both ends."""

    entering: int
    leaving: int
    low: int
    high: int


class Windows(NamedTuple):
    """Sizes and strides of a window, one of each per axis of positions.

    "SAME" pads with zeros so that ceil(size / stride) positions leave, "CIRCULAR" pads as much with the
    opposite side, and "VALID" does not pad.
    """

    sizes: Shape
    strides: Shape
    padding: str

    @property
    def taps(self) -> int:
        """Number of positions under the window."""
        return math.prod(self.sizes)

    def axes(self, name: str, entering: Shape) -> tuple[Axis, ...]:
        """Every axis of positions; refuses inputs (*positions, channels) that the window does not fit."""
        positions = entering[:-1]
        if len(positions) != len(self.sizes):
            raise ValueError(
                f"{name} has a window of {len(self.sizes)} axes, {self.sizes}, and needs inputs of shape "
                f"({', '.join(['positions'] * len(self.sizes))}, channels); got {entering}."
            )
        for what, numbers in (("strides", self.strides), ("window", self.sizes)):
            if what == "window" and self.padding != "VALID":
                continue
            if any(number > size for number, size in zip(numbers, positions, strict=True)):
                raise ValueError(
                    f"{name} has the {what} {numbers}, larger than its inputs, which have positions "
                    f"{positions}: at most {positions} fit."
                )
        sizes = zip(positions, self.sizes, self.strides, strict=True)
        return tuple(_axis(size, window, stride, self.padding) for size, window, stride in sizes)

    def padded(self, x: Array, axes: tuple[Axis, ...], first: int) -> Array:
        """x with its axes from number `first` on padded."""
        widths = [(0, 0)] * x.ndim
        widths[first : first + len(axes)] = [(axis.low, axis.high) for axis in axes]
        if not any(low or high for low, high in widths):
            return x
        return jnp.pad(x, widths, mode="wrap" if self.padding == "CIRCULAR" else "constant")


class Windowed(Layer):
    """A layer with a window that slides over positions."""

    windows: Windows = eqx.field(static=True)

    @property
    def window(self) -> Shape:
        """Size of the window along each axis of positions."""
        return self.windows.sizes

    @property
    def strides(self) -> Shape:
        """Positions from one window to the next."""
        return self.windows.strides

    @property
    def padding(self) -> str:
        """What stands beyond the edges: "SAME", "VALID" or "CIRCULAR"."""
        return self.windows.padding


def as_windows(sizes: int | Sequence[int], strides: int | Sequence[int] | None, padding: str) -> Windows:
    """Checked windows; one number stands for one axis, one stride for every axis, None for the sizes."""
    sizes = as_shape("window", _plain(sizes))
    if len(sizes) > 3:
        raise ValueError(f"window {sizes} has {len(sizes)} axes; windows have one, two or three.")
    steps = sizes if strides is None else as_shape("strides", _plain(strides))
    if len(steps) == 1:
        steps = steps * len(sizes)
    if len(steps) != len(sizes):
        raise ValueError(
            f"strides {steps} must be one number or as many as the window {sizes} has, {len(sizes)}."
        )
    if not isinstance(padding, str) or padding.upper() not in PADDINGS:
        raise ValueError(f"padding must be one of {', '.join(PADDINGS)}, got {padding!r}.")
    return Windows(sizes, steps, padding.upper())


def _plain(numbers: int | Sequence[int]) -> Shape | int:
    return tuple(numbers) if isinstance(numbers, list | tuple) else numbers  # pyright: ignore[reportReturnType]


def _axis(size: int, window: int, stride: int, padding: str) -> Axis:
    if padding == "VALID":
        return Axis(size, (size - window) // stride + 1, 0, 0)
    leaving = -(-size // stride)
    total = max((leaving - 1) * stride + window - size, 0)
    return Axis(size, leaving, total // 2, total - total // 2)
