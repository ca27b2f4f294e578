r"""Conv: both inputs meet the same weight at the same tap, so one shift d moves both positions.

$$K_{pp'} \mapsto C_b + \frac{C_W}{|D|}\sum_{d\in D} K_{tp+d,\,tp'+d},\qquad
\Theta_{pp'} \mapsto \lambda_b + \frac{1}{|D|}\sum_{d\in D}(\lambda_W K + C_W\Theta)_{tp+d,\,tp'+d} .$$

Taps on zero padding add nothing; the sum is divided by all |D| of them.
"""

from jax import lax
from jaxtyping import Array, PyTree

from finitewidth.architecture.convolution import Conv
from finitewidth.architecture.windows import Windows
from finitewidth.statistics.rules.dense import affine, cast
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.pairs import Kernels, PairLaws, packed, unpacked
from finitewidth.statistics.rules.positions import cross_axes, merged_axes, own_axes, window_axes


@own.register
def _(layer: Conv, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    return _above(layer, below, own_axes(below), laws), ()


@cross.register
def _(layer: Conv, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return _above(layer, below, cross_axes(below, laws), laws)


def _above(layer: Conv, below: Kernels, axes: int, laws: PairLaws) -> Kernels:
    entering = laws.sites.entering
    count = len(entering) - 1
    array = window_axes(packed(below), axes, entering[:-1])
    joint = [tuple(group * count + i for group in range(axes)) for i in range(count)]
    summed = window_sums(array, layer.windows, "Conv", entering, joint)
    mean = unpacked(merged_axes(summed, axes, count) / layer.windows.taps)
    return affine(cast(layer.hyperparameters, below), mean)


def window_sums(
    array: Array, windows: Windows, name: str, entering: tuple[int, ...], joint: list[tuple[int, ...]]
) -> Array:
    """Sums over a window; the axes `joint[i]` of the array move together along axis i of the positions."""
    for i, axis in enumerate(windows.axes(name, entering)):
        for moved in joint[i]:
            array = windows.padded(array, (axis,), moved)
        array = _sum_along(array, joint[i], windows.sizes[i], windows.strides[i], axis.leaving)
    return array


def _sum_along(array: Array, moved: tuple[int, ...], window: int, stride: int, leaving: int) -> Array:
    total = None
    for tap in range(window):
        shifted = array
        for axis in moved:
            shifted = lax.slice_in_dim(shifted, tap, tap + (leaving - 1) * stride + 1, stride, axis)
        total = shifted if total is None else total + shifted
    assert total is not None
    return total
