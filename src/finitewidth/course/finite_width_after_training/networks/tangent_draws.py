r"""Outputs and tangent kernels of random networks of any depth at a few points, without their weights.

Going up, the preactivations of a layer are independent Gaussian vectors given the layer below. Coming down,
the derivatives of an output with respect to a layer are sums of the weight vectors above it. Given the
preactivations that these weights have made, a sum $\sum_ig_iW_i$ is Gaussian: its mean is known, and its
covariance is $|g|^2$ times that of one of them. Both have exactly the law of a network with random weights,
at a cost of n instead of n^2 per layer.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack

# Keeps Cholesky factors of nearly singular covariances finite, in units of rounding.
_JITTER = 16


class _Layer(NamedTuple):
    """Features below, Cholesky factor of the covariance that they give, and preactivations."""

    below: Float[Array, "draws points d"]
    root: Float[Array, "draws points points"]
    z: Float[Array, "draws points width"]


class Starts(NamedTuple):
    """Random networks at the points: last hidden preactivations, outputs, and tangent kernels."""

    hidden: Float[Array, "draws points width"]
    outputs: Float[Array, "draws points out"]
    kernel: Float[Array, "draws points out points out"]


def random_starts(net: Layer, x: Float[Array, "points d"], key: PRNGKeyArray, draws: int) -> Starts:
    """Independent random networks."""
    dtype = x.dtype
    net = dense_stack(jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, net))
    points, out = len(x), net.n_out
    keys = jax.random.split(key, 2 * net.depth)
    features, layers = jnp.broadcast_to(x, (draws, *x.shape)), []
    for l, n in enumerate(net.hidden):
        root = _root(net.C_b[l] + net.C_W[l] * _gram(features))
        z = root @ jax.random.normal(keys[l], (draws, points, n), dtype)
        layers.append(_Layer(features, root, z))
        features = net.activation(z)
    n, (w_key, b_key) = features.shape[-1], jax.random.split(keys[-1])
    w = jnp.sqrt(net.C_W[-1] / n) * jax.random.normal(w_key, (draws, out, n), dtype)
    b = jnp.sqrt(net.C_b[-1]) * jax.random.normal(b_key, (draws, 1, out), dtype)
    own = jnp.eye(out, dtype=dtype)[:, None, :]
    kernel = (net.lambda_b[-1] + net.lambda_W[-1] * _gram(features))[:, :, None, :, None] * own
    down = jnp.broadcast_to(w[:, None], (draws, points, out, n))
    for l in reversed(range(len(layers))):
        below, _, z = layers[l]
        slope = jax.jvp(net.activation, (z,), (jnp.ones_like(z),))[1]
        g = (slope[:, :, None] * down).reshape(draws, points * out, -1)
        gram = g @ g.mT
        motion = net.lambda_b[l] + net.lambda_W[l] * _gram(below)
        kernel = kernel + motion[:, :, None, :, None] * gram.reshape(kernel.shape)
        if l > 0:
            sums = _weighted_sums(net.C_b[l], net.C_W[l], layers[l], g, gram, keys[net.depth + l])
            down = sums.reshape(draws, points, out, -1)
    return Starts(layers[-1].z, features @ w.mT + b, kernel)


def _weighted_sums(C_b: Array, C_W: Array, layer: _Layer, g: Array, gram: Array, key: PRNGKeyArray) -> Array:
    r"""$\sum_ig_iW_i$ for every row of g, given the preactivations that the weight vectors W have made."""
    draws, rows, _ = g.shape
    d = layer.below.shape[-1]
    C_W = C_W / d

    def expected(z: Float[Array, "draws points rows"]) -> Float[Array, "draws rows d"]:
        return C_W * cho_solve((layer.root, True), z).mT @ layer.below

    w_key, b_key = jax.random.split(key)
    w = jnp.sqrt(C_W) * jax.random.normal(w_key, (draws, rows, d), g.dtype)
    b = jnp.sqrt(C_b) * jax.random.normal(b_key, (draws, 1, rows), g.dtype)
    seen = expected(jnp.concatenate([layer.below @ w.mT + b, layer.z @ g.mT], axis=-1))
    # Two batched LAPACK calls at the same time wait for each other's threads for ever (jaxlib 0.10), so the
    # factor is made to depend on the solution.
    root = _root(gram + 0 * seen[:, :1, :1])
    return seen[:, rows:] + root @ (w - seen[:, :rows])


def _gram(features: Float[Array, "draws points d"]) -> Float[Array, "draws points points"]:
    return features @ features.mT / features.shape[-1]


def _root(covariance: Float[Array, "draws m m"]) -> Float[Array, "draws m m"]:
    jitter = _JITTER * jnp.finfo(covariance.dtype).eps * jnp.eye(covariance.shape[-1], dtype=covariance.dtype)
    return jnp.linalg.cholesky(covariance * (1 + jitter))
