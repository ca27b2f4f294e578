r"""Kernel matrices factorised once and solved against many times.

LAPACK and BLAS are called directly on the memory of the arrays: at thousands of points nearly all the
time of a prediction is spent here, and half of every symmetric product can be left out. The
factorisation recurses down to small blocks, which leaves its work to matrix products: the threads of
LAPACK's own routine wait for each other, on a busy machine longer than they work (benchmarks/cholesky.py).
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_blas_funcs, get_lapack_funcs

from finitewidth._base.arrays import AnyArray

# Below this multiple of eps a reciprocal condition number leaves no digits to solve with.
LOST = 4.0
_LEAF = 128


class SingularKernelError(ValueError):
    """A kernel matrix that cannot be inverted."""


class Cholesky(NamedTuple):
    """Factor of a positive definite kernel: `upper` is U with U^T U the kernel (plus the ridge)."""

    upper: Float[np.ndarray, "n n"]
    reciprocal_condition: float

    def solve(self, right: Float[AnyArray, "n k"]) -> Float[np.ndarray, "n k"]:
        """Inverse of the kernel times `right`."""
        right = np.asarray(right)
        (potrs,) = get_lapack_funcs(("potrs",), (self.upper, right))
        return potrs(self.upper, right, lower=0)[0]

    def half_solve(self, right: Float[AnyArray, "n k"]) -> Float[np.ndarray, "n k"]:
        """U^-T times `right`: its Gram matrix is right^T kernel^-1 right."""
        right = np.asarray(right)
        (trsm,) = get_blas_funcs(("trsm",), (self.upper, right))
        return trsm(1.0, self.upper, right, lower=0, trans_a=1)

    def log_determinant(self) -> float:
        """Logarithm of the determinant of the kernel."""
        return float(2 * np.log(np.diag(self.upper)).sum())

    def inverse(self) -> Float[np.ndarray, "n n"]:
        """The whole inverse matrix."""
        half = self.half_solve(np.eye(len(self.upper), dtype=self.upper.dtype))
        return half.T @ half


def factorise(
    kernel: Float[AnyArray, "n n"],
    ridge: float | int = 0.0,
    name: str = "the kernel",
    remedy: str = "a ridge",
) -> Cholesky:
    """Cholesky factor of kernel + ridge; one clear sentence when there is none.

    Parameters
    ----------
    kernel
        Symmetric matrix; read, not changed.
    ridge
        Added to the diagonal.
    name, remedy
        What the error message calls the matrix, and what it calls `ridge`.
    """
    matrix = np.asarray(kernel)
    lower = np.array(matrix, order="C", copy=True)
    lower[np.diag_indices(len(lower))] += ridge
    # The transpose of a row-major lower triangle is a column-major upper one: no entry moves.
    upper = lower.T
    pocon, lange = get_lapack_funcs(("pocon", "lange"), (upper,))
    norm = lange("1", upper)
    reciprocal = float(pocon(upper, norm, uplo="U")[0]) if _factorise_in_place(lower) else 0.0
    if not reciprocal > np.finfo(matrix.dtype).eps * LOST:
        raise SingularKernelError(singular_sentence(matrix, ridge, reciprocal, name, remedy))
    return Cholesky(upper, reciprocal)


def _factorise_in_place(lower: Float[np.ndarray, "n n"]) -> bool:
    """Replace the lower triangle by its Cholesky factor; whether all pivots were positive."""
    n = len(lower)
    if n <= _LEAF:
        (potrf,) = get_lapack_funcs(("potrf",), (lower,))
        factor, failed = potrf(lower.T, lower=0, clean=0)
        lower[...] = factor.T
        return not failed
    half = n // 2
    top, panel, rest = lower[:half, :half], lower[half:, :half], lower[half:, half:]
    if not _factorise_in_place(top):
        return False
    trsm, syrk = get_blas_funcs(("trsm", "syrk"), (lower,))
    columns = trsm(1.0, top.T, panel.T, lower=0, trans_a=1)
    panel[...] = columns.T
    rest -= syrk(1.0, columns, trans=1, lower=0).T
    return _factorise_in_place(rest)


def symmetric_product(
    outer: Float[AnyArray, "m n"], inner: Float[AnyArray, "n n"], shift: Float[AnyArray, "m n"]
) -> Float[np.ndarray, "m m"]:
    r"""$M K M^T - S M^T - M S^T$ for symmetric K, at little more than half the cost.

    With $K = T + T^T$, T triangular, it is $X + X^T$ with $X = (M T - S) M^T$.
    """
    outer, inner, shift = (np.asarray(a) for a in (outer, inner, shift))
    (trmm,) = get_blas_funcs(("trmm",), (inner, outer))
    half = trmm(1.0, inner.T, outer.T, side=0, lower=0)
    half -= 0.5 * np.diag(inner)[:, None] * outer.T
    half -= shift.T
    product = outer @ half
    return product + product.T


def confused_pair(kernel: Float[AnyArray, "n n"]) -> tuple[int, int, float] | None:
    """Two points that the kernel cannot tell apart, and their correlation of 1 or -1."""
    matrix = np.asarray(kernel)
    scale = np.sqrt(np.diag(matrix))
    correlation = matrix / np.outer(scale, scale)
    np.fill_diagonal(correlation, 0.0)
    i, j = np.unravel_index(np.argmax(np.abs(correlation)), correlation.shape)
    if abs(1 - abs(correlation[i, j])) > 64 * np.finfo(matrix.dtype).eps:
        return None
    return int(min(i, j)), int(max(i, j)), float(np.sign(correlation[i, j]))


def singular_sentence(
    matrix: np.ndarray, ridge: float | int, reciprocal: float, name: str, remedy: str = "a ridge"
) -> str:
    """Why a kernel cannot be inverted, and what would help."""
    pair = confused_pair(matrix)
    if pair is None:
        reason = (
            f"its condition number is {1 / reciprocal:.1g}"
            if reciprocal > 0
            else "it is not positive definite"
        )
    else:
        reason = f"points {pair[0]} and {pair[1]} are {'equal' if pair[2] > 0 else 'opposite'} to it"
    return (
        f"{name} is singular on these {len(matrix)} points ({reason}): the answer is not unique. "
        f"Remove points that repeat others, or pass {remedy} above {ridge:.1g}, "
        f"say {suggested_ridge(matrix):.1g}."
    )


def suggested_ridge(matrix: Float[AnyArray, "n n"]) -> float:
    """A ridge that makes a singular kernel of this size and precision solvable."""
    matrix = np.asarray(matrix)
    return float(10 * np.sqrt(np.finfo(matrix.dtype).eps) * np.mean(np.diag(matrix)))
