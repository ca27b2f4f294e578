"""Sums of neurons over the root of their number, as functions of one array with a row per neuron."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def tanh_neurons(rows: Float[Array, "n k"], x: Float[Array, "m d"]) -> Float[Array, "m 1"]:
    """tanh neurons; rows are (weights, output weight)."""
    return jnp.tanh(x @ rows[:, :-1].T) @ rows[:, -1:] / jnp.sqrt(len(rows))


def relu_neurons(rows: Float[Array, "n k"], x: Float[Array, "m d"]) -> Float[Array, "m 1"]:
    """ReLU neurons; rows are (weights, output weight)."""
    return jnp.maximum(x @ rows[:, :-1].T, 0) @ rows[:, -1:] / jnp.sqrt(len(rows))
