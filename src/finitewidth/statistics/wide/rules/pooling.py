r"""Averages over positions.

AveragePool has one shift for each of the two positions, $K_{pp'}\mapsto|D|^{-2}\sum_{dd'}K_{tp+d,\,tp'+d'}$;
GlobalAveragePool is the mean over all pairs of positions, and Flatten the mean over equal ones. The NTK goes
the same way.
"""

from jaxtyping import PyTree

from finitewidth.architecture.pooling import AveragePool, Flatten, GlobalAveragePool
from finitewidth.statistics.wide.rules.channels import Channels, channels
from finitewidth.statistics.wide.rules.convolution import window_sums
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, packed, unpacked
from finitewidth.statistics.wide.rules.positions import (
    cross_axes,
    equal_positions,
    leading_axes,
    merged_axes,
    own_axes,
    reads_pairs,
    window_axes,
)


@reads_pairs.register(AveragePool)
@reads_pairs.register(GlobalAveragePool)
def _(layer: AveragePool | GlobalAveragePool, above: bool) -> bool:
    return True


@reads_pairs.register
def _(layer: Flatten, above: bool) -> bool:
    return False


@channels.register
def _(layer: Flatten, entering: Channels) -> Channels:
    # Channels of different positions differ in variance and are correlated.
    return Channels("Flatten", gaussian=False, independent=entering.independent)


@own.register
def _(layer: AveragePool, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    return _average(layer, below, laws), ()


@cross.register
def _(layer: AveragePool, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return _average(layer, below, laws)


def _average(layer: AveragePool, below: Kernels, laws: PairLaws) -> Kernels:
    """Both kernels above, between all pairs of positions or between equal ones, as is needed there."""
    entering = laws.sites.entering
    count = len(entering) - 1
    array = window_axes(packed(below), 1, 2, entering[:-1])
    for first in (1, 1 + count):
        alone = [(first + i,) for i in range(count)]
        array = window_sums(array, layer.windows, "AveragePool", alone, laws)
    above = unpacked(merged_axes(array, 1, 2, count) / layer.windows.taps**2)
    return above if laws.sites.pairs_above else equal_positions(above)


@own.register
def _(layer: GlobalAveragePool, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    return _mean(below, 1, 2), ()


@cross.register
def _(layer: GlobalAveragePool, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return _mean(below, 1, 2)


@own.register
def _(layer: Flatten, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    return _equal_mean(below, 1, own_axes(below)), ()


@cross.register
def _(layer: Flatten, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return _equal_mean(below, leading_axes(laws), cross_axes(below, laws))


def _equal_mean(below: Kernels, first: int, axes: int) -> Kernels:
    return _mean(equal_positions(below), 1, 1) if axes == 2 else _mean(below, first, axes)


def _mean(below: Kernels, first: int, axes: int) -> Kernels:
    """The mean over axes of positions, from number `first` on."""
    return unpacked(packed(below).mean(axis=tuple(range(first, first + axes))))
