r"""The polar factor $UV^T$ of a matrix $G=U\Sigma V^T$: by its singular values, or by products alone.

Newton-Schulz iterations apply an odd polynomial $p(s)=as+bs^3+cs^5$ to every singular value and leave U and
V as they are. The cubic $\frac32s-\frac12s^3$ has its only attracting fixed point at 1. The quintic that
Muon uses grows small values faster and has no fixed point near 1: it keeps them in a band around it.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_whole

# Coefficients of s, s^3 and s^5.
CUBIC = (1.5, -0.5, 0.0)
MUON_QUINTIC = (3.4445, -4.7750, 2.0315)


def polar_factor(matrix: Float[AnyArray, "rows columns"]) -> Float[Array, "rows columns"]:
    """U V^T by singular value decomposition, over the singular values that are not zero."""
    matrix = as_matrix("matrix", matrix)
    u, s, v = jnp.linalg.svd(matrix, full_matrices=False)
    rounding = jnp.finfo(matrix.dtype).eps * max(matrix.shape) * s[0]
    return (u * (s > rounding)) @ v


def newton_schulz(
    matrix: Float[AnyArray, "rows columns"],
    steps: int = 5,
    coefficients: tuple[float, float, float] = MUON_QUINTIC,
) -> Float[Array, "rows columns"]:
    r"""The polar factor approximately, by products of matrices: $X\to aX+b\,XX^TX+c\,(XX^T)^2X$.

    Parameters
    ----------
    matrix
        G. The iteration starts at $G/|G|_F$, whose singular values are at most 1.
    steps
        Iterations.
    coefficients
        (a, b, c): `MUON_QUINTIC`, or `CUBIC`, which converges to the polar factor.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from finitewidth._base.linalg import CUBIC, newton_schulz
    >>> newton_schulz(jnp.array([[3.0, 0.0], [0.0, -0.5]]), 20, CUBIC).round(6)
    Array([[ 1.,  0.],
           [ 0., -1.]], dtype=float64)
    """
    matrix = as_matrix("matrix", matrix)
    check_whole("steps", steps, 0)
    a, b, c = coefficients
    # Products with the smaller of the two Gram matrices cost less.
    turned = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if turned else matrix
    size = jnp.linalg.norm(x)
    x = x / jnp.where(size > 0, size, 1)

    def step(x: Array, _) -> tuple[Array, None]:
        gram = x @ x.T
        return a * x + (b * gram + c * gram @ gram) @ x, None

    x = jax.lax.scan(step, x, None, length=steps)[0]
    return x.T if turned else x


def as_matrix(name: str, matrix: Float[AnyArray, "..."]) -> Float[Array, "rows columns"]:
    """An array with two axes."""
    matrix = jnp.asarray(matrix)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(
            f"{name} has shape {matrix.shape}; a spectral norm needs a matrix, an array with two axes."
        )
    return matrix if jnp.issubdtype(matrix.dtype, jnp.floating) else matrix.astype(float)
