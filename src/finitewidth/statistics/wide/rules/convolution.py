r"""Conv: both inputs meet the same weight at the same tap, so one shift d moves both positions.

$$K_{pp'} \mapsto C_b + \frac{C_W}{|D|}\sum_{d\in D} K_{tp+d,\,tp'+d},\qquad
\Theta_{pp'} \mapsto \lambda_b + \frac{1}{|D|}\sum_{d\in D}(\lambda_W K + C_W\Theta)_{tp+d,\,tp'+d} .$$

Taps on zero padding add nothing; the sum is divided by all |D| of them.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, PyTree

from finitewidth.architecture.convolution import Conv
from finitewidth.architecture.windows import Axis, Windows
from finitewidth.statistics.wide.rules.dense import affine, cast
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, packed, unpacked
from finitewidth.statistics.wide.rules.positions import (
    cross_axes,
    leading_axes,
    merged_axes,
    own_axes,
    window_axes,
    worked_out,
)


@own.register
def _(layer: Conv, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    return _above(layer, below, 1, own_axes(below), laws), ()


@cross.register
def _(layer: Conv, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return _above(layer, below, leading_axes(laws), cross_axes(below, laws), laws)


def _above(layer: Conv, below: Kernels, first: int, axes: int, laws: PairLaws) -> Kernels:
    entering = laws.sites.entering
    count = len(entering) - 1
    array = window_axes(packed(below), first, axes, entering[:-1])
    joint = [tuple(first + group * count + i for group in range(axes)) for i in range(count)]

    def finished(summed: Array) -> Array:
        mean = unpacked(merged_axes(summed, first, axes, count) / layer.windows.taps)
        return packed(affine(cast(layer.hyperparameters, below), mean))

    return unpacked(window_sums(array, layer.windows, "Conv", joint, laws, finished))


def window_sums(
    array: Array,
    windows: Windows,
    name: str,
    joint: list[tuple[int, ...]],
    laws: PairLaws,
    finished: Callable[[Array], Array] = lambda summed: summed,
) -> Array:
    """Sums over a window, and what `finished` makes of them.

    The axes `joint[i]` of the array move together along axis i of the positions. The sums along one axis are
    in memory before those along the next, which would otherwise work them out at every tap.
    """
    for i, axis in enumerate(windows.axes(name, laws.sites.entering)):
        last = finished if i == len(joint) - 1 else lambda summed: summed
        array = worked_out(
            lambda array, i=i, a=axis, f=last: f(_sum_along(array, windows, i, a, joint[i])), array, laws
        )
    return array


def _sum_along(array: Array, windows: Windows, i: int, axis: Axis, moved: tuple[int, ...]) -> Array:
    """Sums under the window along one axis of positions; zeros beyond the edges are never in memory."""
    low = axis.low
    if windows.padding == "CIRCULAR":
        for number in moved:
            array = windows.padded(array, (axis,), number)
        low = 0
    taps = [
        _shifted(array, moved, low - tap, axis.leaving, windows.strides[i]) for tap in range(windows.sizes[i])
    ]
    return sum(taps[1:], taps[0])


def _shifted(array: Array, moved: tuple[int, ...], low: int, leaving: int, stride: int) -> Array:
    """The axes `moved` by `low` positions upwards, every `stride`-th of them, `leaving` in all."""
    widths = [(0, 0, 0)] * array.ndim
    for number in moved:
        widths[number] = (low, (leaving - 1) * stride + 1 - array.shape[number] - low, 0)
    shifted = lax.pad(array, jnp.zeros((), array.dtype), widths)
    for number in moved:
        shifted = lax.slice_in_dim(shifted, 0, None, stride, number)
    return shifted
