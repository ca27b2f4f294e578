"""Many random networks at once: whole networks, and layers drawn one after the other."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Key, PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack

# Random numbers held in memory at a time: 32 MB in double precision.
_NUMBERS_AT_ONCE = 4_000_000

# Keeps the Cholesky factor of a singular covariance (parallel inputs) finite.
_JITTER = 1e-13

# Random numbers are slow to compile, and no faster with every optimisation on.
COMPILER = {"xla_backend_optimization_level": "1"}

# Of a network, its parameters and the inputs.
Statistic = Callable[[Any, Any, Float[Array, "n ..."]], Any]


def input_of_size(square: float, n_in: int = 4) -> Float[np.ndarray, "1 d"]:
    """One input with |x|^2 / n_in equal to `square`."""
    return np.full((1, n_in), np.sqrt(square))


def over_networks(
    net: Layer,
    x: Float[np.ndarray, "n ..."],
    key: PRNGKeyArray,
    draws: int,
    statistic: Statistic,
    numbers: int = 0,
) -> Any:
    """`statistic(net, params, x)` for independent draws of all weights, along a first axis.

    Memory is held for the weights of a network or for so many `numbers`, whichever is more.
    """
    inputs, drawn = jnp.asarray(x), jax.eval_shape(lambda key: net.init(key, x.shape[1:]), key)
    weights = sum(leaf.size for leaf in jax.tree.leaves(drawn) if leaf.ndim > 1)
    return in_batches(
        lambda keys: _network_draws(net, inputs, keys, statistic), key, draws, max(weights, numbers)
    )


def _statistics(
    net: Layer, x: Float[Array, "n ..."], keys: Key[Array, " draws"], statistic: Statistic
) -> Any:
    return jax.vmap(lambda key: statistic(net, net.init(key, x.shape[1:]), x))(keys)


_network_draws = jax.jit(_statistics, static_argnames="statistic", compiler_options=COMPILER)


def over_layers(
    net: Layer, x: Float[np.ndarray, "m d"], key: PRNGKeyArray, draws: int, *, with_tangent: bool = False
) -> Float[np.ndarray, "draws layers m m"]:
    r"""Second moments $\frac1n\sum_i z_{ia}z_{ib}$ of every hidden layer, for independent networks.

    Given the layer below, the units of a layer are independent Gaussian vectors, exactly and at any
    width, with covariance $C_b + \frac{C_W}{n}\sum_j\sigma_{ja}\sigma_{jb}$. Drawing them directly has
    the law of a network with random weights at a cost of n instead of n^2 per layer.

    Parameters
    ----------
    net
        A network whose hidden layers all have the same width.
    x
        Inputs; with `with_tangent` one input and one direction, whose "preactivations" are the
        derivatives of those of the input along it.
    key, draws
        Randomness, and the number of networks.
    with_tangent
        Whether the second row of x is a direction.
    """
    inputs, numbers = jnp.asarray(x), width_of(net) * len(x)
    return in_batches(
        lambda keys: _layer_draws(net, inputs, keys, with_tangent=with_tangent), key, draws, numbers
    )


def width_of(net: Layer) -> int:
    """The width of all hidden layers; refuses layers of different width."""
    hidden = dense_stack(net).hidden
    if len(set(hidden)) != 1:
        raise ValueError(f"hidden layers must have one width, got {hidden}.")
    return hidden[0]


def _layer_moments(
    net: Layer, x: Float[Array, "m d"], keys: Key[Array, " draws"], with_tangent: bool
) -> Array:
    return jax.vmap(lambda key: _one_draw(net, x, with_tangent, key))(keys)


_layer_draws = jax.jit(_layer_moments, static_argnames="with_tangent", compiler_options=COMPILER)


def _one_draw(net: Layer, x: Float[Array, "m d"], with_tangent: bool, key: PRNGKeyArray) -> Array:
    net = dense_stack(net)
    n, m = net.hidden[0], x.shape[0]
    has_bias = jnp.array([1.0, 0.0]) if with_tangent else jnp.ones(m)
    bias = jnp.outer(has_bias, has_bias)

    def response(z: Float[Array, "n m"]) -> Float[Array, "n m"]:
        if not with_tangent:
            return net.activation(z)
        return jnp.stack(jax.jvp(net.activation, (z[:, 0],), (z[:, 1],)), axis=1)

    def layer(features, level):
        layer_key, C_b, C_W = level
        covariance = C_b * bias + C_W * features.T @ features / features.shape[0]
        factor = jnp.linalg.cholesky(covariance + _JITTER * jnp.diag(jnp.diag(covariance)))
        z = jax.random.normal(layer_key, (n, m)) @ factor.T
        return response(z), z.T @ z / n

    keys = jax.random.split(key, net.depth - 1)
    first, moments = layer(x.T, (keys[0], net.C_b[0], net.C_W[0]))
    _, rest = lax.scan(layer, first, (keys[1:], net.C_b[1:-1], net.C_W[1:-1]))
    return jnp.concatenate([moments[None], rest])


def in_batches(
    evaluate: Callable[[Key[Array, " draws"]], Any], key: PRNGKeyArray, draws: int, size: int
) -> Any:
    """Equal batches of keys, small enough for memory, so that one compiled function serves them all."""
    batches = -(-draws * size // _NUMBERS_AT_ONCE)
    batch = -(-draws // batches)
    keys = jax.random.split(key, (batches, batch))
    results = [jax.tree.map(np.asarray, evaluate(k)) for k in keys]
    return jax.tree.map(lambda *parts: np.concatenate(parts)[:draws], *results)
