r"""Tangent kernels of random networks of any depth at a few points, drawn without their weights.

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
import numpy as np
from jax.scipy.linalg import cho_solve
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture import MLP
from finitewidth.lab.estimate import Estimate, sample_mean
from finitewidth.lab.shallow_networks import linear_descent, mean_kernels

_NUMBERS_AT_ONCE = 2**17
# Keeps Cholesky factors of nearly singular covariances finite, in units of rounding.
_JITTER = 16


class _Layer(NamedTuple):
    """Features below, Cholesky factor of the covariance that they give, and preactivations."""

    below: Float[Array, "draws points d"]
    root: Float[Array, "draws points points"]
    z: Float[Array, "draws points width"]


def tangent_kernels(
    net: MLP, x: Float[Array, "points d"], key: PRNGKeyArray, draws: int
) -> Float[Array, "draws points out points out"]:
    """The tangent kernels of independent random networks."""
    points, out, dtype = len(x), net.n_out, x.dtype
    keys = jax.random.split(key, 2 * net.depth)
    net = jax.tree.map(lambda a: a.astype(dtype) if eqx.is_inexact_array(a) else a, net)
    features, layers = jnp.broadcast_to(x, (draws, *x.shape)), []
    for l, n in enumerate(net.hidden):
        root = _root(net.C_b[l] + net.C_W[l] * _gram(features))
        z = root @ jax.random.normal(keys[l], (draws, points, n), dtype)
        layers.append(_Layer(features, root, z))
        features = net.activation(z)
    n = features.shape[-1]
    w = jnp.sqrt(net.C_W[-1] / n) * jax.random.normal(keys[-1], (draws, 1, out, n), dtype)
    own = jnp.eye(out, dtype=dtype)[:, None, :]
    kernel = (net.lambda_b[-1] + net.lambda_W[-1] * _gram(features))[:, :, None, :, None] * own
    down = jnp.broadcast_to(w, (draws, points, out, n))
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
    return kernel


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
    unseen = w - expected(layer.below @ w.mT + b)
    return expected(layer.z @ g.mT) + _root(gram) @ unseen


def _gram(features: Float[Array, "draws points d"]) -> Float[Array, "draws points points"]:
    return features @ features.mT / features.shape[-1]


def _root(covariance: Float[Array, "draws m m"]) -> Float[Array, "draws m m"]:
    jitter = _JITTER * jnp.finfo(covariance.dtype).eps * jnp.eye(covariance.shape[-1], dtype=covariance.dtype)
    return jnp.linalg.cholesky(covariance * (1 + jitter))


def linearised_mean(
    net: MLP,
    x: Float[np.ndarray, "train d"],
    y: Float[np.ndarray, "train out"],
    x_test: Float[np.ndarray, "test d"],
    key: PRNGKeyArray,
    *,
    eta: float,
    steps: int,
    draws: int,
) -> Estimate:
    """Mean outputs (test, out) of networks linearised at their random start, after gradient descent.

    The outputs' start is as often positive as negative with the same kernel, so it has no part in the mean.
    With one hidden layer the mean kernel is known at every width, and what is linear in the kernel's
    distance from it is subtracted, whose mean is zero.
    """
    every = np.concatenate([x, x_test])
    single = lambda a: jnp.asarray(a, jnp.float32)
    expected = single(mean_kernels(net, every).tangent) if net.depth == 2 else None
    size = max(1, min(draws, _NUMBERS_AT_ONCE // (max(net.hidden) * len(every))))
    ends = [
        jax.device_get(
            _descents(
                net, single(every), single(y), expected, jax.random.fold_in(key, i), size, eta, steps
            )
        )
        for i in range(-(-draws // size))
    ]  # fmt: skip
    return sample_mean(np.concatenate(ends)[:, len(y) :].astype(float))


@eqx.filter_jit
def _descents(
    net: MLP,
    x: Array,
    y: Array,
    expected: Array | None,
    key: PRNGKeyArray,
    draws: int,
    eta: float,
    steps: int,
) -> Float[Array, "draws points out"]:
    """Outputs at all points after linear descent from zero."""
    kernels = tangent_kernels(net, x, key, draws)[:, :, :, : len(y)]
    end = lambda kernel: linear_descent(kernel, jnp.zeros(kernel.shape[:3], x.dtype), y, eta, steps)
    if expected is None:
        return end(kernels)
    mean = expected[:, None, : len(y), None] * jnp.eye(y.shape[1], dtype=x.dtype)[:, None, :]
    mean = jnp.broadcast_to(mean, kernels.shape)
    return end(kernels) - jax.jvp(end, (mean,), (kernels - mean,))[1]
