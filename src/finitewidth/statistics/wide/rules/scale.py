r"""Scale: $K\mapsto a^2K$ and $\Theta\mapsto a^2\Theta$."""

from jaxtyping import PyTree

from finitewidth.architecture.scale import Scale
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, weighted


@own.register
def _(layer: Scale, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    return weighted([layer.factor**2], [below]), ()


@cross.register
def _(layer: Scale, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return weighted([layer.factor**2], [below])
