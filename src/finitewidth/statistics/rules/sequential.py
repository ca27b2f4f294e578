"""Sequential: one rule after the other."""

from jaxtyping import PyTree

from finitewidth.architecture.sequential import Sequential
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.pairs import Kernels, PairLaws
from finitewidth.statistics.rules.positions import along


@own.register
def _(layer: Sequential, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    features = []
    for inner, asked in zip(layer.layers, along(layer.layers, laws), strict=True):
        below, found = own(inner, below, asked)
        features.append(found)
    return below, tuple(features)


@cross.register
def _(layer: Sequential, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    asked = along(layer.layers, laws)
    for inner, row, column, inside in zip(layer.layers, rows, columns, asked, strict=True):
        below = cross(inner, below, row, column, inside)
    return below
