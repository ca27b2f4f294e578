"""A function of one variable and its derivatives, by automatic differentiation."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float


def derivatives(
    function: Callable[[Array], Array], t: Float[Array, "*s"], highest: int
) -> list[Float[Array, "..."]]:
    """f(t), f'(t), ... up to the order `highest`.

    The function acts elementwise, or takes a number and returns any array.
    """
    if highest == 0:
        return [function(t)]
    below, slopes = jax.jvp(lambda s: derivatives(function, s, highest - 1), (t,), (jnp.ones_like(t),))
    return [*below, slopes[-1]]
