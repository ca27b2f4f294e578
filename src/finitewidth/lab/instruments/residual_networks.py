r"""Residual networks drawn at random, with their tangent kernel for one input.

With $D=\mathrm{diag}(\sigma'(z))$ a block $z\mapsto\alpha z+\beta(b+W\sigma(z))$ turns the kernel of its
channels into $J H J^T+\beta^2(\lambda_b+\lambda_W\frac1n|\sigma|^2)$ with $J=\alpha+\beta WD$.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth.architecture.residual_stack import ResidualStack

_NUMBERS_AT_ONCE = 4_000_000


class ResidualDraws(NamedTuple):
    """Of every network, averaged over its readout weights.

    Attributes
    ----------
    Phi
        Mean of s^2 over the last hidden layer.
    H
        Mean NTK of one output.
    H_pairs
        Mean square of the NTK between two different outputs.
    ffH
        Mean of f_1 f_2 H_12 for two different outputs.
    """

    Phi: Float[np.ndarray, " draws"]
    H: Float[np.ndarray, " draws"]
    H_pairs: Float[np.ndarray, " draws"]
    ffH: Float[np.ndarray, " draws"]


def residual_draws(net: ResidualStack, square: float, width: int, draws: int, seed: int) -> ResidualDraws:
    """Networks of a width at an input of mean square `square`."""
    rng = np.random.default_rng(seed)
    batch = max(1, _NUMBERS_AT_ONCE // width**2)
    parts = [_batch(net, square, width, min(batch, draws - start), rng) for start in range(0, draws, batch)]
    return ResidualDraws(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _batch(net: ResidualStack, square: float, n: int, draws: int, rng: np.random.Generator) -> tuple:
    first, block, last = net.first, net.block, net.last
    z = np.sqrt(first.C_b + first.C_W * square) * rng.standard_normal((draws, n))
    H = np.broadcast_to((first.lambda_b + first.lambda_W * square) * np.eye(n), (draws, n, n))
    s, slope = _neurons(net, z)
    for _ in range(net.blocks):
        W = np.sqrt(block.C_W / n) * rng.standard_normal((draws, n, n))
        b = np.sqrt(block.C_b) * rng.standard_normal((draws, n))
        J = net.beta * W * slope[:, None]
        J[:, np.arange(n), np.arange(n)] += net.alpha
        own = net.beta**2 * (block.lambda_b + block.lambda_W * np.mean(s**2, axis=1))
        H = J @ H @ J.swapaxes(1, 2) + own[:, None, None] * np.eye(n)
        z = net.alpha * z + net.beta * (b + np.einsum("dij,dj->di", W, s))
        s, slope = _neurons(net, z)
    # Readout weights have variance C_W/n: every average over them is a trace.
    Q = slope[:, :, None] * H * slope[:, None]
    variance = last.C_W / n
    Phi = np.mean(s**2, axis=1)
    mean = last.lambda_b + last.lambda_W * Phi + variance * np.einsum("dii->d", Q)
    return (
        Phi,
        mean,
        variance**2 * np.sum(Q**2, axis=(1, 2)),
        variance**2 * np.einsum("di,dij,dj->d", s, Q, s),
    )


def _neurons(net: ResidualStack, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value, slope = _value_and_slope(net.activation, z)
    return np.asarray(value), np.asarray(slope)


@partial(jax.jit, static_argnums=0)
def _value_and_slope(activation, z):
    return jax.jvp(activation, (z,), (jnp.ones_like(z),))
