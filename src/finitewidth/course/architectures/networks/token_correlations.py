"""How alike the tokens of real, random transformers are, from block to block."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.checks import check_key, check_whole
from finitewidth._base.estimate import sample_mean
from finitewidth.architecture.layer import Layer
from finitewidth.course.architectures.tokens import TokenCorrelations, check_tokens, stream_width


def drawn_token_correlations(
    block: Layer,
    blocks: int,
    tokens: int,
    *,
    key: PRNGKeyArray,
    draws: int,
    variance: float = 1.0,
    correlation: float = 0.3,
) -> TokenCorrelations:
    """Variance and correlation of tokens behind every block, measured in stacks of random weights.

    In each stack the variance is the mean square of an entry of a token, over tokens and channels; the
    correlation is the mean product of different tokens over it. Both are averaged over the stacks.

    Parameters
    ----------
    block, blocks, tokens, variance, correlation
        As for `course.architectures.theory.token_correlations`; the widths and heads are those of the block.
    key, draws
        Randomness, and the number of stacks, at least 2; tokens and weights are drawn anew for each.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> block = fw.Residual(fw.LayerNorm(), fw.SelfAttention(32, 8))
    >>> from finitewidth.course.architectures.networks import drawn_token_correlations
    >>> found = drawn_token_correlations(block, 3, 5, key=jax.random.key(0), draws=4)
    >>> found.difference.value.shape
    (4,)
    """
    check_tokens(blocks, tokens, variance, correlation)
    check_key(key)
    check_whole("draws", draws, least=2)
    shape = tokens, stream_width(block, tokens)
    q, common = _measured(block, jax.random.split(key, draws), blocks, shape, variance, correlation)
    q, common = np.asarray(q), np.asarray(common)
    return TokenCorrelations(*map(sample_mean, (q, common / q, (q - common) / q)))


@eqx.filter_jit
def _measured(
    block: Layer, keys: Array, blocks: int, shape: tuple[int, int], variance: float, correlation: float
) -> tuple[Float[Array, "draws depths"], Float[Array, "draws depths"]]:
    def one(key: PRNGKeyArray) -> tuple[Array, Array]:
        common_key, own_key, weights_key = jax.random.split(key, 3)
        common = jax.random.normal(common_key, shape[1:])
        own = jax.random.normal(own_key, shape)
        x = jnp.sqrt(variance) * (jnp.sqrt(correlation) * common + jnp.sqrt(1 - correlation) * own)

        def through(x: Array, key: PRNGKeyArray) -> tuple[Array, tuple[Array, Array]]:
            x = block.apply(block.init(key, shape), x[None])[0]
            return x, _moments(x)

        _, behind = lax.scan(through, x, jax.random.split(weights_key, blocks))
        return jax.tree.map(lambda first, rest: jnp.append(first, rest), _moments(x), behind)

    return lax.map(one, keys)


def _moments(x: Float[Array, "T n"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Mean square of an entry, and mean product of two different tokens."""
    T, n = x.shape
    square = jnp.sum(x**2)
    return square / (T * n), (jnp.sum(jnp.sum(x, axis=0) ** 2) - square) / (T * (T - 1) * n)
