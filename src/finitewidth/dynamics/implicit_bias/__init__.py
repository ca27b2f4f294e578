"""Which of all solutions training picks: nearest interpolators, diagonal networks, largest margins."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.dynamics.implicit_bias.diagonal import DiagonalNetwork, LeastSum, least_sum
    from finitewidth.dynamics.implicit_bias.interpolators import (
        Function,
        Limit,
        convex_limit,
        descent_limit,
        kernel_descent_limit,
        mirror_limit,
    )
    from finitewidth.dynamics.implicit_bias.margin_time import MarginTime, margin_constant, time_to_margin
    from finitewidth.dynamics.implicit_bias.max_margin import MaxMargin, max_margin
    from finitewidth.dynamics.implicit_bias.potentials import Entropy, HyperbolicEntropy, Potential, Quadratic
    from finitewidth.dynamics.implicit_bias.separability import Separability, separability
    from finitewidth.dynamics.implicit_bias.sparse_margin import SparseMargin, sparse_margin

__all__, __getattr__ = exports(__name__, __file__)
