r"""Activate: $K\mapsto\langle\sigma\sigma\rangle$, $\Theta\mapsto\langle\sigma'\sigma'\rangle\,\Theta$."""

from jaxtyping import PyTree

from finitewidth.architecture.activate import Activate
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.moments import Moments, PairLaws


@own.register
def _(layer: Activate, below: Moments, laws: PairLaws) -> tuple[Moments, PyTree]:
    law = laws[layer.activation]
    value, slope = law.moments(below.nngp)
    return Moments(value, slope * below.ntk), law.features(below.nngp)


@cross.register
def _(layer: Activate, below: Moments, rows: PyTree, columns: PyTree, laws: PairLaws) -> Moments:
    value, slope = laws[layer.activation].pair(rows, columns, below.nngp)
    return Moments(value, slope * below.ntk)
