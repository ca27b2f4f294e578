"""The two halves of a rule, chosen by the type of the layer."""

import functools

from jaxtyping import PyTree

from finitewidth.architecture.layer import Layer
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws


@functools.singledispatch
def own(layer: Layer, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    """Kernels (n,) of every input with itself above the layer, and the features of every input."""
    raise _unknown(layer)


@functools.singledispatch
def cross(layer: Layer, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    """Kernels (rows, columns) of all pairs of a tile above the layer."""
    raise _unknown(layer)


def _unknown(layer: Layer) -> TypeError:
    name = type(layer).__name__
    return TypeError(
        f"no infinite-width rule is known for the layer {name}: register one with "
        "finitewidth.statistics.wide.rules.own and .cross; as a real network it works without."
    )
