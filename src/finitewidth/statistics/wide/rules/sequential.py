"""Sequential: one rule after the other."""

from jaxtyping import PyTree

from finitewidth.architecture.sequential import Sequential
from finitewidth.statistics.wide.rules.grouping import grouped
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws
from finitewidth.statistics.wide.rules.positions import along


@own.register
def _(layer: Sequential, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    features, layers = [], grouped(layer.layers)
    for inner, asked in zip(layers, along(layers, laws), strict=True):
        below, found = own(inner, below, asked)
        features.append(found)
    return below, tuple(features)


@cross.register
def _(layer: Sequential, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    layers = grouped(layer.layers)
    for inner, row, column, asked in zip(layers, rows, columns, along(layers, laws), strict=True):
        below = cross(inner, below, row, column, asked)
    return below
