"""The largest eigenvalue of a kernel matrix: it limits the stable steps of gradient descent."""

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import eigsh

from finitewidth._base.arrays import AnyArray

_DENSE = 300


def largest_eigenvalue(kernel: Float[AnyArray, "n n"]) -> float:
    """Largest eigenvalue, by Lanczos iteration unless the matrix is small."""
    matrix = np.asarray(kernel)
    if len(matrix) <= _DENSE:
        return float(np.linalg.eigvalsh(matrix)[-1])
    start = np.random.default_rng(0).normal(size=len(matrix)).astype(matrix.dtype)
    return float(eigsh(matrix, k=1, v0=start, return_eigenvectors=False)[0])
