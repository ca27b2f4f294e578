"""Which of all solutions training picks: nearest interpolators, diagonal networks, largest margins."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.implicit_bias.theory.diagonal import DiagonalNetwork, LeastSum, least_sum
    from finitewidth.course.implicit_bias.theory.interpolators import (
        Function,
        Limit,
        convex_limit,
        descent_limit,
        kernel_descent_limit,
        mirror_limit,
    )
    from finitewidth.course.implicit_bias.theory.margin_time import (
        MarginTime,
        margin_constant,
        time_to_margin,
    )
    from finitewidth.course.implicit_bias.theory.max_margin import MaxMargin, max_margin
    from finitewidth.course.implicit_bias.theory.potentials import (
        Entropy,
        HyperbolicEntropy,
        Potential,
        Quadratic,
    )
    from finitewidth.course.implicit_bias.theory.separability import Separability, separability
    from finitewidth.course.implicit_bias.theory.sparse_margin import SparseMargin, sparse_margin

__all__, __getattr__ = exports(__name__, __file__)
