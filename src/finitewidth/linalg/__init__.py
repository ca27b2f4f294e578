"""Matrices without any theory: factorisations, eigenvalues, and gradient descent on a quadratic."""

from finitewidth.linalg.cholesky import Cholesky, SingularKernelError, factorise, symmetric_product
from finitewidth.linalg.descent_filter import descent_gain, descent_residual
from finitewidth.linalg.eigenvalues import largest_eigenvalue

__all__ = [
    "Cholesky", "SingularKernelError", "descent_gain", "descent_residual", "factorise", "largest_eigenvalue",
    "symmetric_product",
]  # fmt: skip
