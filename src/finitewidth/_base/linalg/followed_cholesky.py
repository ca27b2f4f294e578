"""Cholesky factors of kernels whose numbers JAX follows."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth._base.linalg.cholesky import LOST


def followed_cholesky(kernel: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """Lower factor of a positive definite matrix; NaN where rounding leaves no digits of a pivot."""
    lower = jnp.linalg.cholesky(kernel)
    least = jnp.min(jnp.diag(lower)) ** 2
    lost = LOST * len(kernel) * jnp.finfo(kernel.dtype).eps * jnp.max(jnp.diag(kernel))
    return jnp.where(least > lost, lower, jnp.nan)
