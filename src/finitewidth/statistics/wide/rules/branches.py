r"""Sum, Product and Concat of branches that are independent given what enters.

$K=\sum_bK_b$, $\prod_bK_b$ and $\sum_bf_bK_b$ with the shares $f_b$ of the channels; $\Theta$ follows by the
rules of derivatives, for the product $\sum_b\Theta_b\prod_{c\ne b}K_c$.
"""

import functools

from jaxtyping import PyTree

from finitewidth.architecture.branches import Branches
from finitewidth.architecture.concat import Concat
from finitewidth.architecture.product import Product
from finitewidth.architecture.sums import Sum
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, weighted


@functools.singledispatch
def joined(layer: Branches, each: list[Kernels]) -> Kernels:
    """The kernels of what leaves, from those of all branches."""
    raise TypeError(f"no infinite-width rule is known for branches joined by a {type(layer).__name__}.")


@joined.register
def _(layer: Sum, each: list[Kernels]) -> Kernels:
    return weighted([1.0] * len(each), each)


@joined.register
def _(layer: Concat, each: list[Kernels]) -> Kernels:
    return weighted(list(layer.shares), each)


@joined.register
def _(layer: Product, each: list[Kernels]) -> Kernels:
    # The product rule of derivatives, one factor after the other.
    return functools.reduce(lambda a, b: Kernels(a.nngp * b.nngp, a.ntk * b.nngp + a.nngp * b.ntk), each)


@own.register
def _(layer: Branches, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    found = [own(branch, below, laws) for branch in layer.branches]
    return joined(layer, [above for above, _ in found]), tuple(features for _, features in found)


@cross.register
def _(layer: Branches, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    each = zip(layer.branches, rows, columns, strict=True)
    return joined(layer, [cross(branch, below, row, column, laws) for branch, row, column in each])
