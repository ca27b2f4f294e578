r"""How a block of layers answers to a variance, and what many of them make of a signal.

For any block, $v(K)$ is the variance that leaves it for a variance $K$ that enters. A change of the variance
grows by $\chi_\parallel=dv/dK$. A small difference of two inputs, and a squared gradient on its way down,
grows by $\chi_\perp$: the derivative of the covariance that leaves by the one that enters, at equal inputs,
which is also the derivative of the NTK that leaves by the NTK that enters. Both are derivatives of the rules
of the layers, so no block needs a theory of its own.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from finitewidth.architecture.dense import AFFINE
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.normalisation import Normalisation
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Repeat, Sequential
from finitewidth.statistics.wide.kernels import default_laws
from finitewidth.statistics.wide.rules.channels import Channels, channels
from finitewidth.statistics.wide.rules.interface import own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws

_DEPTHS = (64, 128, 256)
_GAUSSIAN = Channels("a Dense layer", gaussian=True, independent=True)
# Growth by less than this share of a power of depth, or of a block, counts as none.
_FLAT = 0.03
_SAME = 1e-9


class BlockResponse(NamedTuple):
    """Variance that leaves, and the growth of a change of the variance and of a difference of inputs."""

    variance: Float[Array, "*n"]
    parallel: Float[Array, "*n"]
    perpendicular: Float[Array, "*n"]


class BlockCriticality(eqx.Module):
    r"""What many blocks make of a signal of variance one.

    Attributes
    ----------
    parallel, perpendicular
        $\chi_\parallel$ and $\chi_\perp$ of one block at variance one.
    blocks
        Number of blocks, that of a `Repeat`; 1 for a block that stands alone.
    variance, gradient
        Variance behind all blocks, and the factor by which squared gradients grow on their way down.
    p
        What the branch adds to the difference of two inputs over what it adds to their variance, both at
        variance one. Behind a norm the growth of gradients is critical at p = 1. NaN without a branch.
    C_b
        Recommended bias variance of the branch's last weights: for a normalised branch the one with p = 1,
        if it is positive; otherwise zero. NaN without a branch.
    beta
        Recommended factor of the branch, $1/\sqrt{\text{blocks}}$; NaN without a branch.
    growth
        What further blocks do to variance and gradients, in words.
    """

    parallel: float
    perpendicular: float
    blocks: int = eqx.field(static=True)
    variance: float
    gradient: float
    p: float
    C_b: float
    beta: float
    growth: str = eqx.field(static=True)


def check_block(block: Layer) -> None:
    """Refuse a block that has no infinite-width rule for Gaussian channels that enter."""
    channels(block, _GAUSSIAN)


def block_response(block: Layer, K: Float[Array, "*n"]) -> BlockResponse:
    """Response of a block, whose inputs are Gaussian channels of variance K, as behind a Dense layer."""
    check_block(block)
    return _responses(block, default_laws(block), jnp.asarray(K, float))


@eqx.filter_jit
def _responses(block: Layer, laws: PairLaws, K: Float[Array, "*n"]) -> BlockResponse:
    flat = jax.vmap(lambda q: response_at(block, laws, q))(K.ravel())
    return BlockResponse(*(a.reshape(K.shape) for a in flat))


def response_at(block: Layer, laws: PairLaws, K: Float[Array, ""]) -> BlockResponse:
    """The response to one variance."""
    none = jnp.zeros(())

    def above(nngp: Array, ntk: Array) -> Kernels:
        found = own(block, Kernels(nngp[None], ntk[None]), laws)[0]
        return Kernels(found.nngp[0], found.ntk[0])

    v, parallel = jax.jvp(lambda K: above(K, none).nngp, (K,), (jnp.ones_like(K),))
    _, perpendicular = jax.jvp(lambda T: above(K, T).ntk, (none,), (jnp.ones_like(K),))
    return BlockResponse(v, parallel, perpendicular)


def block_criticality(block: Layer) -> BlockCriticality:
    """What many blocks make of a signal; `finitewidth.criticality` of a layer."""
    blocks = block.times if isinstance(block, Repeat) else 1
    one = block.layer if isinstance(block, Repeat) else block
    check_block(one)
    laws = default_laws(one)
    response = _responses(one, laws, jnp.ones(()))
    variances, gradients = (np.asarray(a) for a in _along(one, laws, max(blocks, *_DEPTHS)))
    p, C_b = _branch(one)
    return BlockCriticality(
        parallel=float(response.parallel),
        perpendicular=float(response.perpendicular),
        blocks=blocks,
        variance=float(np.exp(variances[blocks])),
        gradient=float(np.exp(gradients[blocks])),
        p=p,
        C_b=C_b,
        beta=math.nan if math.isnan(p) else blocks**-0.5,
        growth="; ".join(
            f"{name} {_growth(values)}"
            for name, values in (("variance", variances), ("squared gradient", gradients))
        ),
    )


@eqx.filter_jit
def _along(block: Layer, laws: PairLaws, depth: int) -> tuple[Array, Array]:
    """Logarithms of variance and squared gradient behind 0, ..., depth blocks, from variance one."""

    def step(state: tuple[Array, Array], _: None):
        log_K, gradient = state
        # Beyond these variances every block answers in proportion, and rounding would spoil the answer.
        K = jnp.clip(jnp.exp(log_K), 1e-12, 1e12)
        response = response_at(block, laws, K)
        state = log_K + jnp.log(response.variance / K), gradient + jnp.log(response.perpendicular)
        return state, state

    start = jnp.zeros(()), jnp.zeros(())
    _, levels = lax.scan(step, start, length=depth)
    every = [jnp.concatenate([first[None], rest]) for first, rest in zip(start, levels, strict=True)]
    return every[0], every[1]


def _growth(logarithms: Float[np.ndarray, " depth"]) -> str:
    """How a quantity goes on, from its logarithms behind 64, 128 and 256 blocks."""
    first, second, third = (float(logarithms[depth]) for depth in _DEPTHS)
    early, late = second - first, third - second
    word = "growing" if late > 0 else "falling"
    if abs(late) < _FLAT:
        return "staying as it is" if abs(third) < _SAME else "tending to a constant"
    if early * late > 0 and late / early > 1.9:
        return f"{word} exponentially, by a factor {math.exp(late / (_DEPTHS[2] - _DEPTHS[1])):.4g} a block"
    if early * late > 0 and late / early > 1.3:
        return f"{word} faster than any power of depth, slower than exponentially"
    return f"{word} about as depth^{late / math.log(2):.1f}"


def _branch(block: Layer) -> tuple[float, float]:
    """p of the block's branch, and the recommended C_b of its last weights."""
    layers = block.layers if isinstance(block, Sequential) else (block,)
    residual = next((layer for layer in layers if isinstance(layer, Residual)), None)
    if residual is None:
        return math.nan, math.nan
    branch = residual.branch
    v, _, sigma = (float(a) for a in _responses(branch, default_laws(branch), jnp.ones(())))
    normed = any(isinstance(layer, Normalisation) for layer in (*layers, *branch.layers))
    last = branch.layers[-1]
    used = float(last.hyperparameters.C_b) if isinstance(last, AFFINE) else 0.0
    return sigma / v, max(used + sigma - v, 0.0) if normed else 0.0
