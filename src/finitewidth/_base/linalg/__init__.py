"""Matrices without any theory: factorisations, eigenvalues, norms, and gradient descent on a quadratic."""

from finitewidth._base.linalg.cholesky import Cholesky, SingularKernelError, factorise, symmetric_product
from finitewidth._base.linalg.descent_filter import descent_gain, descent_residual
from finitewidth._base.linalg.dual_norms import NORMS, DualPair, dual_pair, norm_of
from finitewidth._base.linalg.eigenvalues import largest_eigenvalue
from finitewidth._base.linalg.polar import CUBIC, MUON_QUINTIC, newton_schulz, polar_factor

__all__ = [
    "CUBIC", "MUON_QUINTIC", "NORMS", "Cholesky", "DualPair", "SingularKernelError", "descent_gain",
    "descent_residual", "dual_pair", "factorise", "largest_eigenvalue", "newton_schulz", "norm_of",
    "polar_factor", "symmetric_product",
]  # fmt: skip
