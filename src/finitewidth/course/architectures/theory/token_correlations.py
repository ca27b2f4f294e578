r"""How tokens become alike from block to block of a transformer, and what keeps them apart.

T tokens with variance q and correlation c stay equally correlated through every layer that treats tokens
alike. Split the kernel into the common part $m=qc$ and the tokens' own part $D=q(1-c)$. Softmax attention
with logits divided by the root of the head width and many heads has Gaussian logits with covariance
$C_{QK}^2K_{ik}K_{jl}$, weights S, and

$$m\mapsto C_b + C_{OV}\,(m + D\,r_2),\qquad D\mapsto C_{OV}\,D\,(r_1-r_2),$$

with $r_1=\mathrm E\sum_jS_{ij}^2$ and $r_2=\mathrm E\sum_jS_{ij}S_{kj}$ of two tokens i and k. For logits
that hardly differ, $r_1-r_2=C_{QK}^2q^2(1-c)^2(1-1/T)/T$: $1-c$ is cubed in every layer. Other
layers follow their rules in `kernels`.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

from finitewidth._base.checks import check_whole
from finitewidth._base.estimate import sample_mean
from finitewidth.architecture.attention import SelfAttention
from finitewidth.architecture.layer import Layer
from finitewidth.course.architectures.tokens import TokenCorrelations, check_tokens, stream_width
from finitewidth.statistics.wide.kernels import default_laws
from finitewidth.statistics.wide.rules.channels import affine_channels, channels
from finitewidth.statistics.wide.rules.interface import own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, Sites
from finitewidth.statistics.wide.rules.positions import reads_pairs

# Independent sets of logits; their scatter is the standard error.
_SETS = 8


def token_correlations(
    block: Layer,
    blocks: int,
    tokens: int,
    *,
    variance: float = 1.0,
    correlation: float = 0.3,
    samples: int = 4096,
) -> TokenCorrelations:
    """Variance and correlation of tokens from block to block, in the limit of wide streams and many heads.

    Softmax attention with logits divided by the root of the head width is averaged over random logits, and
    has standard errors; everything else is exact.

    Parameters
    ----------
    block
        A layer, or a `Sequential` of several, whose inputs and outputs are (tokens, channels).
    blocks
        How many times, with weights of their own.
    tokens
        T.
    variance, correlation
        q and c of the tokens that enter; all pairs are equally correlated.
    samples
        Random logits, for attention that has no closed form.

    Examples
    --------
    >>> import finitewidth as fw
    >>> from finitewidth.course.architectures.theory import token_correlations
    >>> attention = fw.SelfAttention(64, 8)
    >>> bare = token_correlations(attention, 2, tokens=16)
    >>> kept = token_correlations(fw.Residual(fw.LayerNorm(), attention), 2, tokens=16)
    >>> bool(bare.difference.value[2] < 1e-4 < 0.3 < kept.difference.value[2])
    True
    """
    check_tokens(blocks, tokens, variance, correlation)
    check_whole("samples", samples, least=_SETS)
    width = stream_width(block, tokens)
    sampled = _sampled(block, tokens, samples)
    below = variance * (correlation + (1 - correlation) * np.eye(tokens))
    K = jnp.broadcast_to(jnp.asarray(below), (_SETS, tokens, tokens))
    found = [K]
    for _ in range(blocks):
        found.append(_through(sampled, default_laws(block), found[-1], width))
    q, common = np.array([_parts(K) for K in found]).transpose(1, 2, 0)
    return TokenCorrelations(*map(sample_mean, (q, common / q, (q - common) / q)))


@eqx.filter_jit
def _through(
    block: Layer, laws: PairLaws, K: Float[Array, "sets T T"], width: int
) -> Float[Array, "sets T T"]:
    asked = laws.at(Sites((K.shape[1], width), pairs_above=True))
    above, _ = own(block, Kernels(K, jnp.zeros_like(K)), asked)
    return above.nngp


def _parts(K: Float[Array, "sets T T"]) -> tuple[Float[Array, " sets"], Float[Array, " sets"]]:
    """Mean entry of the diagonal, and off it."""
    T = K.shape[1]
    trace = jnp.trace(K, axis1=1, axis2=2)
    return trace / T, (K.sum(axis=(1, 2)) - trace) / (T * (T - 1))


class _ManyHeads(Layer):
    """Softmax attention with infinitely many heads, on equally correlated tokens, by random logits."""

    attention: SelfAttention
    shared: Float[Array, "sets samples T"]
    own: Float[Array, "sets samples 2 T"]

    def leaving(self, entering):
        return self.attention.leaving(entering)

    def init(self, key, entering, *, weights="gaussian", dtype=float):
        return self.attention.init(key, entering, weights=weights, dtype=dtype)

    def apply(self, params, x):
        return self.attention.apply(params, x)

    def channels(self, entering):
        return self.attention.channels(entering)

    def learning_rates(self, entering, geometry="gradient"):
        return self.attention.learning_rates(entering, geometry)


def _sampled(layer: Layer, tokens: int, samples: int) -> Layer:
    """The layer with every attention that has no closed form replaced."""
    if isinstance(layer, SelfAttention):
        if (layer.kind, layer.scaling) != ("softmax", "sqrt"):
            return layer
        rng, per_set = np.random.default_rng(0), samples // _SETS
        return _ManyHeads(
            layer,
            jnp.asarray(rng.normal(size=(_SETS, per_set, tokens))),
            jnp.asarray(rng.normal(size=(_SETS, per_set, 2, tokens))),
        )
    return layer.with_inner(lambda inner: _sampled(inner, tokens, samples))


channels.register(_ManyHeads, affine_channels)


@reads_pairs.register
def _(layer: _ManyHeads, above: bool) -> bool:
    return True


@own.register
def _(layer: _ManyHeads, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    T, attention = below.nngp.shape[1], layer.attention
    q, common = _parts(below.nngp)
    D, c = q - common, common / q
    # The part of a logit that all keys share drops out of the softmax.
    size = (attention.C_QK * jnp.sqrt(q * D))[:, None, None, None]
    c = c[:, None, None, None]
    shared = layer.shared[:, :, None]
    S = jax.nn.softmax(size * (jnp.sqrt(c) * shared + jnp.sqrt(1 - c) * layer.own), axis=-1)
    r_2 = jnp.mean(jnp.sum(S[:, :, 0] * S[:, :, 1], axis=-1), axis=1)
    # r_1 - r_2 as half a square, which loses no digits where weights are nearly equal.
    apart = jnp.mean(jnp.sum((S[:, :, 0] - S[:, :, 1]) ** 2, axis=-1), axis=1) / 2
    m, D = attention.C_b + attention.C_OV * (common + D * r_2), attention.C_OV * D * apart
    K = m[:, None, None] + D[:, None, None] * jnp.eye(T)
    return Kernels(K, jnp.zeros_like(K)), ()
