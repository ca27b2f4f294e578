"""A real multilayer perceptron with the weights of one random draw."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture import MLP


class Affine(NamedTuple):
    """One affine layer: z = bias + weight @ input."""

    weight: Float[Array, "fan_out fan_in"]
    bias: Float[Array, " fan_out"]


Params = tuple[Affine, ...]


def init(net: MLP, key: PRNGKeyArray, n_in: int, dtype: jnp.dtype | type = float) -> Params:
    """Draw weights W ~ N(0, C_W / fan_in) and biases b ~ N(0, C_b)."""
    widths = (n_in, *net.hidden, net.n_out)
    layers = []
    for l, layer_key in enumerate(jax.random.split(key, net.depth)):
        weight_key, bias_key = jax.random.split(layer_key)
        fan_in, fan_out = widths[l], widths[l + 1]
        weight = jax.random.normal(weight_key, (fan_out, fan_in), dtype)
        bias = jax.random.normal(bias_key, (fan_out,), dtype)
        layers.append(
            Affine(
                (weight * jnp.sqrt(net.C_W[l] / fan_in)).astype(dtype),
                (bias * jnp.sqrt(net.C_b[l])).astype(dtype),
            )
        )
    return tuple(layers)


def preactivations(net: MLP, params: Params, x: Float[Array, "n d"]) -> list[Float[Array, "n _"]]:
    """z^(1), ..., z^(L) for every input."""
    z = [x @ params[0].weight.T + params[0].bias]
    for weight, bias in params[1:]:
        z.append(net.activation(z[-1]) @ weight.T + bias)
    return z


def apply(net: MLP, params: Params, x: Float[Array, "n d"]) -> Float[Array, "n out"]:
    """The outputs z^(L)."""
    return preactivations(net, params, x)[-1]
