"""Sequential: one rule after the other."""

from jaxtyping import PyTree

from finitewidth.architecture.sequential import Sequential
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.moments import Moments, PairLaws


@own.register
def _(layer: Sequential, below: Moments, laws: PairLaws) -> tuple[Moments, PyTree]:
    features = []
    for inner in layer.layers:
        below, found = own(inner, below, laws)
        features.append(found)
    return below, tuple(features)


@cross.register
def _(layer: Sequential, below: Moments, rows: PyTree, columns: PyTree, laws: PairLaws) -> Moments:
    for inner, row, column in zip(layer.layers, rows, columns, strict=True):
        below = cross(inner, below, row, column, laws)
    return below
