"""Laws from which the entries of a weight matrix are drawn, all with mean 0 and variance 1."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

Draw = Callable[[PRNGKeyArray, tuple[int, int], jnp.dtype], Array]
# A law by its name, or as a function; and a type of real numbers.
Law = str | Draw
Precision = jnp.dtype | type

# Standard deviation of a standard normal cut off at two standard deviations.
_TRUNCATED_STD = 0.8796256610342398


def gaussian(key: PRNGKeyArray, shape: tuple[int, int], dtype: jnp.dtype) -> Float[Array, "out in"]:
    """Independent standard normal entries."""
    return jax.random.normal(key, shape, dtype)


def uniform(key: PRNGKeyArray, shape: tuple[int, int], dtype: jnp.dtype) -> Float[Array, "out in"]:
    """Independent entries, uniform between -sqrt(3) and sqrt(3)."""
    return jax.random.uniform(key, shape, dtype, -np.sqrt(3.0), np.sqrt(3.0))


def truncated(key: PRNGKeyArray, shape: tuple[int, int], dtype: jnp.dtype) -> Float[Array, "out in"]:
    """Independent normal entries cut off at two standard deviations, then rescaled to variance 1."""
    return jax.random.truncated_normal(key, -2.0, 2.0, shape, dtype) / _TRUNCATED_STD


def orthogonal(key: PRNGKeyArray, shape: tuple[int, int], dtype: jnp.dtype) -> Float[Array, "out in"]:
    """A multiple of a uniformly distributed matrix with orthonormal rows or columns."""
    return jax.random.orthogonal(key, max(shape), dtype=dtype)[: shape[0], : shape[1]] * np.sqrt(max(shape))


DRAWS: dict[str, Draw] = {
    "gaussian": gaussian,
    "uniform": uniform,
    "truncated": truncated,
    "orthogonal": orthogonal,
}


def draw_weight(
    weights: Law, key: PRNGKeyArray, shape: tuple[int, int], dtype: jnp.dtype
) -> Float[Array, "out in"]:
    """A weight matrix of unit variance from a named law or a function of (key, shape, dtype)."""
    if isinstance(weights, str):
        if weights not in DRAWS:
            raise ValueError(
                f"unknown weights {weights!r}. Known: {', '.join(DRAWS)}; "
                "or a function of (key, shape, dtype)."
            )
        return DRAWS[weights](key, shape, dtype)
    drawn = jnp.asarray(weights(key, shape, dtype), dtype)
    if drawn.shape != shape:
        raise ValueError(
            f"weights returned shape {drawn.shape} where {shape} was asked; it must draw a whole matrix."
        )
    return drawn
