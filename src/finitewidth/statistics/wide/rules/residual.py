r"""Residual: $K\mapsto\alpha^2K_{\mathrm{shortcut}}+\beta^2K_{\mathrm{body}}$, and $\Theta$ in the same way.

The body ends in random weights, so what it adds is uncorrelated with what enters.
"""

from jaxtyping import Array, PyTree

from finitewidth.architecture.residual import Residual
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, weighted


@own.register
def _(layer: Residual, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    body, of_body = own(layer.branch, below, laws)
    around, of_around = below, ()
    if layer.around_branch is not None:
        around, of_around = own(layer.around_branch, below, laws)
    return weighted(_squares(layer, below), [around, body]), (of_around, of_body)


@cross.register
def _(layer: Residual, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    body = cross(layer.branch, below, rows[1], columns[1], laws)
    around = below
    if layer.around_branch is not None:
        around = cross(layer.around_branch, below, rows[0], columns[0], laws)
    return weighted(_squares(layer, below), [around, body])


def _squares(layer: Residual, below: Kernels) -> list[Array]:
    return [factor.astype(below.nngp.dtype) ** 2 for factor in (layer.alpha, layer.beta)]
