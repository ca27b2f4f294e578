r"""Products $V^T K V$ and $\mathrm{diag}(V M V^T)$ of symmetric matrices, at half the cost."""

import numpy as np
from jaxtyping import Float
from scipy.linalg import get_blas_funcs

from finitewidth.arrays import AnyArray

_BLOCK = 512
# From so many rows on products in single precision pay, and their rounding averages out of sums over rows.
_MANY = 1_000


def congruence(V: Float[AnyArray, "n n"], K: Float[AnyArray, "n n"]) -> Float[np.ndarray, "n n"]:
    """V^T K V for symmetric K, exactly symmetric, some columns at a time."""
    V, K = np.asarray(V), np.asarray(K)
    whole = np.empty(K.shape, np.result_type(V, K))
    for start in range(0, len(K), _BLOCK):
        columns = slice(start, start + _BLOCK)
        end = min(start + _BLOCK, len(K))
        upper = V[:, :end].T @ (K @ V[:, columns])
        whole[:end, columns] = upper
        whole[columns, :end] = upper.T
        square = upper[start:]
        whole[columns, columns] = (square + square.T) / 2
    return whole


def congruence_diagonal(
    V: Float[np.ndarray, "rows n"], M: Float[np.ndarray, "n n"], gain: Float[np.ndarray, " n"]
) -> Float[np.ndarray, " rows"]:
    r"""$\sum_{jk} V_{ij} g_j M_{jk} g_k V_{ik}$ for symmetric positive M; of many rows in single precision.

    With $M = T + T^T$, T triangular, it is twice the sum over T alone. The terms of a positive matrix do not
    cancel, so single precision leaves a relative error of 1e-6, whatever the sizes of the gains.
    """
    dtype = np.float32 if len(V) > _MANY else V.dtype
    top = float(np.abs(gain).max()) or 1.0
    gain = gain / top
    triangle = np.empty(M.shape, dtype, order="F")
    for start in range(0, len(M), _BLOCK):
        rows = slice(start, start + _BLOCK)
        triangle[rows] = gain[rows, None] * M[rows] * gain
    triangle[np.diag_indices(len(M))] /= 2
    # BLAS reads the upper triangle only.
    (trmm,) = get_blas_funcs(("trmm",), (triangle,))
    found = np.empty(len(V))
    for start in range(0, len(V), _BLOCK):
        rows = slice(start, start + _BLOCK)
        block = V[rows].astype(dtype, order="F")
        product = trmm(1.0, triangle, block, side=1, lower=0)
        found[rows] = 2 * np.sum(product * block, axis=1, dtype=float)
    return top**2 * found
