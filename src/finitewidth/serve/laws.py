"""Kernel recursions compiled once per activation: depth and variances are data, not shapes."""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
from jax import lax

from finitewidth.activations import as_activation

TERMS = 256
DEEPEST_FLOW = 100
DEEPEST_NET = 10


@functools.lru_cache(maxsize=32)
def law_of(activation: str):
    return as_activation(activation).law(TERMS)


@eqx.filter_jit
def flow(law, C_W, C_b, K0, c0):
    """Variance and correlation of two inputs in every layer: (depth, starts), (depth, angles)."""

    def step(carry, _):
        K, q, cross = carry
        K = C_b + C_W * law.moments(K).value
        features = law.features(jnp.stack([q, q]))
        pair = jax.vmap(lambda k: law.pair(features, features, jnp.full((2, 2), k)).value[0, 1])(cross)
        q = C_b + C_W * law.moments(q[None]).value[0]
        cross = C_b + C_W * pair
        return (K, q, cross), (K, cross / q)

    first = C_b + C_W * K0, C_b + C_W * 1.0, C_b + C_W * c0
    _, (K, c) = lax.scan(step, first, None, length=DEEPEST_FLOW - 1)
    return jnp.concatenate([first[0][None], K]), jnp.concatenate([(first[2] / first[1])[None], c])


@eqx.filter_jit
def stack(law, C_W, C_b, depth, x):
    """K and Theta of all pairs after `depth` affine layers, depth up to DEEPEST_NET."""
    gram = x @ x.T / x.shape[1]
    K, T = C_b + C_W * gram, 1.0 + gram
    d = jnp.diag_indices(len(x))

    def layer(carry, l):
        K, T = carry
        q = jnp.diag(K)
        features = law.features(q)
        pair, own = law.pair(features, features, K), law.moments(q)
        value = pair.value.at[d].set(own.value)
        slope = pair.slope.at[d].set(own.slope)
        above = C_b + C_W * value, 1.0 + value + C_W * slope * T
        return jax.tree.map(lambda a, b: jnp.where(l < depth, a, b), above, (K, T)), None

    (K, T), _ = lax.scan(layer, (K, T), jnp.arange(1, DEEPEST_NET))
    return K, T


@jax.jit
def trained(K, T, y, steps):
    """Mean and standard deviation after `steps` of gradient descent with eta = 1 / lambda_max."""
    n = len(y)
    lam, V = jnp.linalg.eigh(T[:n, :n])
    eta = 1 / lam[-1]
    x = jnp.clip(eta * lam, 1e-15, 1.0)
    gain = eta * -jnp.expm1(steps * jnp.log1p(-jnp.minimum(x, 1 - 1e-15))) / x
    M = (T[n:, :n] @ V) * gain @ V.T
    spread = jnp.einsum("ij,jk,ik->i", M, K[:n, :n], M) - 2 * jnp.sum(M * K[n:, :n], axis=1)
    return M @ y, jnp.sqrt(jnp.maximum(jnp.diag(K)[n:] + spread, 0)), eta


ACTIVATIONS = tuple(
    (a, a)
    for a in (
        "tanh",
        "erf",
        "relu",
        "gelu",
        "silu",
        "sin",
        "softplus",
        "sigmoid",
        "elu",
        "selu",
        "mish",
        "leaky_relu",
        "linear",
    )
)
