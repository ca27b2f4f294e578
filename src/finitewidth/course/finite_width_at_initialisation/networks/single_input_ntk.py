r"""Tangent kernels of random networks at one input, without their weight matrices.

Given the vector h that enters a layer, its preactivations $z=b+Wh$ are independent Gaussians; given both, W
is known along h and free across it. So the gradient g that comes back through W,

$$W^Tg=\frac{h\,((z-b)\cdot g)}{|h|^2}+\sqrt{C_W/n}\,|g|\,\Big(\xi-\frac{h\,(h\cdot\xi)}{|h|^2}\Big),$$

has the law of a network with random weights, exactly and at any width, at a cost of n instead of n^2 a layer.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key, PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._instruments.network_draws import COMPILER, in_batches, width_of


class _Layer(NamedTuple):
    """What enters a layer, what its weights make of that, and the slopes of the neurons behind it."""

    entering: Float[Array, " n"]
    moved: Float[Array, " n"]
    slope: Float[Array, " n"]


def tangent_kernels(net: Layer, square: float, key: PRNGKeyArray, draws: int) -> Float[np.ndarray, " draws"]:
    r"""The NTK of one output at one input with $|x|^2/n_0$ equal to `square`, for independent networks.

    All hidden layers must have the same width.
    """
    numbers = 3 * width_of(net) * (dense_stack(net).depth - 1)
    return in_batches(lambda keys: _draws(net, jnp.asarray(square), keys), key, draws, numbers)


def _kernels(net: Layer, square: Float[Array, ""], keys: Key[Array, " draws"]) -> Float[Array, " draws"]:
    return jax.vmap(lambda key: _one_draw(net, square, key))(keys)


_draws = jax.jit(_kernels, compiler_options=COMPILER)


def _one_draw(net: Layer, square: Float[Array, ""], key: PRNGKeyArray) -> Float[Array, ""]:
    net = dense_stack(net)
    layers, n = net.depth - 1, net.hidden[0]
    of_weights, of_biases, across = jax.random.normal(key, (3, layers, n))
    first, middle, last = (
        jax.tree.map(lambda v, i=i: v[i], net.hyperparameters) for i in (0, slice(1, -1), -1)
    )

    def forward(h, level):
        given, along, bias = level
        moved = jnp.sqrt(given.C_W * jnp.mean(h**2)) * along
        z = moved + jnp.sqrt(given.C_b) * bias
        value, slope = jax.jvp(net.activation, (z,), (jnp.ones_like(z),))
        return value, _Layer(h, moved, slope)

    def backward(state, level):
        H, g = state
        given, (h, moved, slope), xi = level
        g = g * slope
        H = H + jnp.sum(g**2) * (given.lambda_b + given.lambda_W * jnp.mean(h**2))
        # A layer whose neurons are all off sends nothing back along it.
        size = jnp.where(jnp.any(h != 0), jnp.sum(h**2), 1.0)
        free = jnp.sqrt(given.C_W / n) * jnp.linalg.norm(g) * xi
        return (H, free + h * (moved @ g - h @ free) / size), None

    h, (_, _, slope) = forward(jnp.full(n, jnp.sqrt(square)), (first, of_weights[0], of_biases[0]))
    h, hidden = lax.scan(forward, h, (middle, of_weights[1:], of_biases[1:]))
    start = (last.lambda_b + last.lambda_W * jnp.mean(h**2), jnp.sqrt(last.C_W / n) * across[0])
    (H, g), _ = lax.scan(backward, start, (middle, hidden, across[1:]), reverse=True)
    return H + jnp.sum((g * slope) ** 2) * (first.lambda_b + first.lambda_W * square)
