"""A real multilayer perceptron with the weights of one random draw."""

import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture import MLP, Affine, Params

__all__ = ["Affine", "Params", "apply", "init", "preactivations"]


def init(net: MLP, key: PRNGKeyArray, n_in: int, dtype: jnp.dtype | type = float) -> Params:
    """Draw Gaussian weights and biases; the same as `net.init`."""
    return net.init(key, n_in, dtype=dtype)


def preactivations(net: MLP, params: Params, x: Array) -> list[Float[Array, "n _"]]:
    """z^(1), ..., z^(L) for every input."""
    return net.preactivations(params, x)


def apply(net: MLP, params: Params, x: Array) -> Float[Array, "n out"]:
    """The outputs z^(L)."""
    return net.apply(params, x)
