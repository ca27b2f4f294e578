"""A function of one number together with its derivatives."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from finitewidth._base.arrays import Elementwise


def value_and_derivatives(function: Elementwise, t: Array, order: int) -> list[Array]:
    """The function at t and its derivatives up to the given order; elementwise if t is an array."""
    if order == 0:
        return [function(t)]
    below = lambda s: value_and_derivatives(function, s, order - 1)
    values, slopes = jax.jvp(below, (t,), (jnp.ones_like(t),))
    return [*values, slopes[-1]]
