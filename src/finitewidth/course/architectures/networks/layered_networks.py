"""Kernels of many random networks of layers, from passes in training."""

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PRNGKeyArray, PyTree

from finitewidth.architecture.dense import Dense
from finitewidth.architecture.sequential import Sequential
from finitewidth.course._instruments.network_draws import COMPILER, in_batches


def kernels_of_draws(
    net: Sequential, x: Float[np.ndarray, "n ..."], key: PRNGKeyArray, draws: int, numbers: int
) -> dict[str, Float[np.ndarray, "draws n n"]]:
    """Covariance of the output over the readout's weights, and NTK of the one output, of every draw.

    Memory is held for about so many `numbers` a network. Single precision is far below the noise.
    """
    inputs = jnp.asarray(x, jnp.float32)

    def kernels(keys: Key[Array, " draws"]) -> dict[str, Array]:
        # Drawn one array after the other: these small programs serve all networks with layers of these sizes.
        each = jax.vmap(jax.random.split)(keys)
        params = jax.vmap(lambda k: net.init(k, inputs.shape[1:], dtype=inputs.dtype))(each[:, 0])
        return _kernels(net, inputs, params, each[:, 1])

    return in_batches(kernels, key, draws, numbers)


def _all_draws(net: Sequential, x: Float[Array, "n ..."], params: PyTree, keys: Key[Array, " draws"]):
    return jax.vmap(lambda own, key: _one_draw(net, x, own, key))(params, keys)


_kernels = jax.jit(_all_draws, compiler_options=COMPILER)


def _one_draw(
    net: Sequential, x: Float[Array, "n ..."], params: tuple, key: PRNGKeyArray
) -> dict[str, Array]:
    readout = net.layers[-1]
    assert isinstance(readout, Dense)

    def passed(below: tuple) -> Array:
        z = x
        for layer, own, mask in zip(net.layers[:-1], below, jax.random.split(key, len(below)), strict=True):
            z = layer.training_pass(own, z, mask)
        return z

    z = passed(params[:-1])
    nngp = readout.hyperparameters.C_b + readout.hyperparameters.C_W * z @ z.T / z.shape[1]
    jacobian = jax.jacrev(lambda p: readout.apply(p[-1], passed(p[:-1]))[:, 0])(params)
    rates = jax.tree.broadcast(net.learning_rates(x.shape[1:]), params)
    flat = lambda leaf: leaf.reshape(len(x), -1)
    parts = jax.tree.map(lambda rate, j: rate * flat(j) @ flat(j).T, rates, jacobian)
    return {"nngp": nngp, "ntk": jnp.sum(jnp.stack(jax.tree.leaves(parts)), axis=0)}
