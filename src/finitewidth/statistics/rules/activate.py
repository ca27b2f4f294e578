r"""Activate: $K\mapsto\langle\sigma\sigma\rangle$, $\Theta\mapsto\langle\sigma'\sigma'\rangle\,\Theta$."""

from jaxtyping import PyTree

from finitewidth.architecture.activate import Activate
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.pairs import Kernels, PairLaws


@own.register
def _(layer: Activate, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    law = laws[layer.activation]
    value, slope = law.moments(below.nngp)
    return Kernels(value, slope * below.ntk), law.features(below.nngp)


@cross.register
def _(layer: Activate, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    value, slope = laws[layer.activation].pair(rows, columns, below.nngp)
    return Kernels(value, slope * below.ntk)
