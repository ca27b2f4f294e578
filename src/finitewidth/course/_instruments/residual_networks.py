r"""Residual networks drawn at random, with their tangent kernel at some inputs.

With $D_a=\mathrm{diag}(\sigma'(z_a))$ a block $z\mapsto\alpha z+\beta(b+W\sigma(z))$ turns the kernel of its
channels at inputs a and b into $J_aH_{ab}J_b^T+\beta^2(\lambda_b+\lambda_W\frac1n\sigma_a\cdot\sigma_b)$ with
$J_a=\alpha+\beta WD_a$.
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
        Mean of s_1 s_2 over the last hidden layer.
    H
        Mean NTK of one output.
    H_pairs
        Mean of H_12 H_34, both between the same two different outputs; the order of labels is 1, 3, 2, 4.
    ffH
        Mean of f_1 f_2 H_34 for two different outputs, f_1 and label 3 belonging to the first; in the same
        order.
    """

    Phi: Float[np.ndarray, "draws p p"]
    H: Float[np.ndarray, "draws p p"]
    H_pairs: Float[np.ndarray, "draws p p p p"]
    ffH: Float[np.ndarray, "draws p p p p"]


def residual_draws(
    net: ResidualStack, x: Float[np.ndarray, "p d"], width: int, draws: int, seed: int
) -> ResidualDraws:
    """Networks of a width at the inputs x."""
    rng = np.random.default_rng(seed)
    batch = max(1, _NUMBERS_AT_ONCE // (width * len(x)) ** 2)
    parts = [_batch(net, x, width, min(batch, draws - start), rng) for start in range(0, draws, batch)]
    return ResidualDraws(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _batch(net: ResidualStack, x: np.ndarray, n: int, draws: int, rng: np.random.Generator) -> tuple:
    p, d = x.shape
    normal = lambda *shape: rng.standard_normal((draws, *shape))
    first, last = net.first, net.last
    z = np.sqrt(first.C_W / d) * x @ normal(d, n) + np.sqrt(first.C_b) * normal(1, n)
    gram = first.lambda_b + first.lambda_W * x @ x.T / d
    H = np.broadcast_to(gram[:, :, None, None] * np.eye(n), (draws, p, p, n, n))
    s, slope = _neurons(net, z)
    for block in net.blocks:
        C_b, C_W, lambda_b, lambda_W = block.dense
        W = np.sqrt(C_W / n) * normal(n, n)
        J = block.beta * W[:, None] * slope[:, :, None]
        J[..., np.arange(n), np.arange(n)] += block.alpha
        own = block.beta**2 * (lambda_b + lambda_W * s @ s.swapaxes(1, 2) / n)
        H = J[:, :, None] @ H @ J[:, None].swapaxes(3, 4) + own[..., None, None] * np.eye(n)
        z = block.alpha * z + block.beta * (s @ W.swapaxes(1, 2) + np.sqrt(C_b) * normal(1, n))
        s, slope = _neurons(net, z)
    # Readout weights have variance C_W/n: every average over them is a trace.
    Q = slope[:, :, None, :, None] * H * slope[:, None, :, None]
    variance = last.C_W / n
    Phi = s @ s.swapaxes(1, 2) / n
    mean = last.lambda_b + last.lambda_W * Phi + variance * np.einsum("sabii->sab", Q)
    flat = Q.reshape(draws, p * p, n * n)
    pairs = (flat @ flat.swapaxes(1, 2)).reshape(draws, p, p, p, p)
    fields = np.einsum("sai,scdij,sbj->sacbd", s, Q, s, optimize=True)
    return Phi, mean, variance**2 * np.einsum("sabcd->sacbd", pairs), variance**2 * fields


def _neurons(net: ResidualStack, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    value, slope = _value_and_slope(net.activation, z)
    return np.asarray(value), np.asarray(slope)


@partial(jax.jit, static_argnums=0)
def _value_and_slope(activation, z):
    return jax.jvp(activation, (z,), (jnp.ones_like(z),))
