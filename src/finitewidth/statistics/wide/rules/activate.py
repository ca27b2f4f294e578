r"""Activate: $K\mapsto\langle\sigma\sigma\rangle$, $\Theta\mapsto\langle\sigma'\sigma'\rangle\,\Theta$."""

from jaxtyping import PyTree

from finitewidth.architecture.activate import Activate
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws
from finitewidth.statistics.wide.rules.positions import pointwise


def own_rule(layer: Activate, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    """Of every input with itself."""
    law = laws[layer.activation]
    value, slope = law.moments(below.nngp)
    return Kernels(value, slope * below.ntk), law.features(below.nngp)


def cross_rule(layer: Activate, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    """Of all pairs."""
    value, slope = laws[layer.activation].pair(rows, columns, below.nngp)
    return Kernels(value, slope * below.ntk)


pointwise(own_rule, cross_rule, fence=True)
