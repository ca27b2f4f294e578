r"""Dropout: $K_{aa}\mapsto K_{aa}/k$ for an input with its own mask, no change between two masks.

The kernels are those of a pass in training, in which every input has masks of its own; so is the diagonal of
the kernels of a set of inputs with itself.
"""

from jaxtyping import PyTree

from finitewidth.architecture.dropout import Dropout
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws
from finitewidth.statistics.wide.rules.positions import pointwise


def _own(layer: Dropout, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    return Kernels(*(kernel / layer.keep for kernel in below)), ()


def _cross(layer: Dropout, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return below


pointwise(_own, _cross)
