"""Sequential: one rule after the other."""

from jaxtyping import PyTree

from finitewidth.architecture.sequential import Sequential
from finitewidth.statistics.rules.grouping import grouped
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.pairs import Kernels, PairLaws


@own.register
def _(layer: Sequential, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    features = []
    for inner in grouped(layer.layers):
        below, found = own(inner, below, laws)
        features.append(found)
    return below, tuple(features)


@cross.register
def _(layer: Sequential, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    for inner, row, column in zip(grouped(layer.layers), rows, columns, strict=True):
        below = cross(inner, below, row, column, laws)
    return below
