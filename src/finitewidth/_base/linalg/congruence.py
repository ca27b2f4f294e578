r"""Products $V^T K V$ and $\mathrm{diag}(V M V^T)$ of symmetric matrices, at half the cost."""

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray

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
    V: Float[np.ndarray, "rows n"],
    M: Float[np.ndarray, "n n"],
    gain: Float[np.ndarray, " n"],
    *,
    precise: bool = False,
) -> Float[np.ndarray, " rows"]:
    r"""$\sum_{jk} V_{ij} g_j M_{jk} g_k V_{ik}$ for symmetric positive M; of many rows in single precision.

    With $M = T + T^T$, T triangular, it is twice the sum over T alone, some columns of T at a time. The
    terms of a positive matrix do not cancel, so single precision leaves a relative error of 1e-6, whatever
    the sizes of the gains. `precise` keeps double precision, for forms that something is subtracted from.
    """
    dtype = np.float32 if len(V) > _MANY and not precise else V.dtype
    top = float(np.abs(gain).max()) or 1.0
    gain = gain / top
    found = np.zeros(len(V))
    for start in range(0, len(M), _BLOCK):
        end = min(start + _BLOCK, len(M))
        # Rows below the block of columns are zero in T.
        strip = np.empty((end, end - start), dtype)
        np.multiply(M[:end, start:end], gain[:end, None], out=strip, casting="unsafe")
        strip *= gain[start:end].astype(dtype)
        strip[start:] = np.triu(strip[start:])
        strip[np.arange(start, end), np.arange(end - start)] /= 2
        for first in range(0, len(V), _BLOCK):
            rows = slice(first, first + _BLOCK)
            block = V[rows, :end].astype(dtype)
            found[rows] += np.einsum("ij,ij->i", block @ strip, block[:, start:], dtype=float)
    return 2 * top**2 * found
