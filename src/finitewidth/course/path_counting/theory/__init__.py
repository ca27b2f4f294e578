"""Moments of Jacobians and bounds of NTK eigenvalues from sums over paths."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.path_counting.theory.eigenvalue_bounds import (
        EigenvalueBounds,
        ntk_eigenvalue_bounds,
    )
    from finitewidth.course.path_counting.theory.jacobians import (
        JacobianMoments,
        LogNorm,
        exponential_growth,
        jacobian_moments,
        log_norm,
    )

__all__, __getattr__ = exports(__name__, __file__)
