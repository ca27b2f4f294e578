r"""SelfAttention in the limits of many wide heads that are known in closed form.

*Logits divided by the head width, one matrix for keys and queries.* The logits of an input are
$C_{QK}K_{ij}$ of that input with itself, so its weights S are numbers, and no gradient flows into them:

$$K\mapsto C_b + C_{OV}\,S_1KS_2^T,\qquad
\Theta\mapsto\lambda_b + S_1\bigl(C_{OV}\Theta + 2\lambda_{OV}\sqrt{C_{OV}}\,K\bigr)S_2^T .$$

*Two matrices.* The logits vanish and softmax has S = 1/T, the same formulas.

*Logits divided by the root of the head width, weights equal to logits.* With $Q=\sum_{jl}K_{jl}^2$,
$R=\sum_{jl}K_{jl}\Theta_{jl}$ and $C=C_{OV}C_{QK}^2$,

$$K\mapsto C_b + C\,Q\,K,\qquad \Theta\mapsto\lambda_b + C\Bigl(Q\Theta + 2RK
+ 2\Bigl(\frac{\lambda_{OV}}{\sqrt{C_{OV}}}+\frac{\lambda_{QK}}{C_{QK}}\Bigr)QK\Bigr).$$
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth.architecture.attention import SelfAttention
from finitewidth.statistics.wide.rules.channels import affine_channels, channels
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws
from finitewidth.statistics.wide.rules.positions import equal_positions, reads_pairs

channels.register(SelfAttention, affine_channels)


@reads_pairs.register
def _(layer: SelfAttention, above: bool) -> bool:
    return True


@own.register
def _(layer: SelfAttention, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    if layer.scaling == "sqrt":
        return _random_logits(_with_known_limit(layer), below, laws), ()
    weights = _weights(_with_known_limit(layer), below.nngp)
    return _average_logits(layer, below, weights, weights, laws), weights


@cross.register
def _(layer: SelfAttention, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    if layer.scaling == "sqrt":
        return _random_logits(layer, below, laws)
    return _average_logits(layer, below, rows, columns, laws)


def _with_known_limit(layer: SelfAttention) -> SelfAttention:
    if layer.scaling == "sqrt" and layer.kind == "softmax":
        raise ValueError(
            "SelfAttention with kind='softmax' and scaling='sqrt' has random logits at any width, and no "
            "kernel in closed form is known: use scaling='linear' or kind='identity', or "
            "monte_carlo_kernels, which averages over real networks."
        )
    if layer.scaling == "linear-untied" and layer.kind == "identity":
        raise ValueError(
            "SelfAttention with kind='identity' and scaling='linear-untied' hands nothing on in wide "
            "networks, because its logits vanish: use scaling='linear' or 'sqrt'."
        )
    return layer


def _weights(layer: SelfAttention, K: Float[Array, "n T T"]) -> Float[Array, "n T T"]:
    logits = layer.C_QK.astype(K.dtype) * K if layer.tied else jnp.zeros_like(K)
    return jax.nn.softmax(logits, axis=2) if layer.kind == "softmax" else logits


def _average_logits(
    layer: SelfAttention,
    below: Kernels,
    rows: Float[Array, "pairs T T"],
    columns: Float[Array, "pairs T T"],
    laws: PairLaws,
) -> Kernels:
    dtype = below.nngp.dtype
    C_OV, C_b = layer.C_OV.astype(dtype), layer.C_b.astype(dtype)
    rate = 2 * layer.lambda_OV.astype(dtype) * jnp.sqrt(C_OV)
    carried = C_OV * below.nngp, C_OV * below.ntk + rate * below.nngp
    # Both kernels below each other: one product of real matrices for the columns.
    read = jnp.einsum("bjl,bkl->bjk", jnp.concatenate(carried, axis=1), columns)
    summed = "bij,bjk->bik" if laws.sites.pairs_above else "bij,bji->bi"
    K, Theta = (jnp.einsum(summed, rows, half) for half in jnp.split(read, 2, axis=1))
    return Kernels(C_b + K, layer.lambda_b.astype(dtype) + Theta)


def _random_logits(layer: SelfAttention, below: Kernels, laws: PairLaws) -> Kernels:
    C_b, C_QK, C_OV, lambda_b, lambda_QK, lambda_OV = (
        number.astype(below.nngp.dtype)
        for number in (layer.C_b, layer.C_QK, layer.C_OV, layer.lambda_b, layer.lambda_QK, layer.lambda_OV)
    )
    K, Theta = below if laws.sites.pairs_above else equal_positions(below)
    total = lambda terms: jnp.sum(terms, axis=(1, 2)).reshape(-1, *[1] * (K.ndim - 1))
    Q, R = total(below.nngp**2), total(below.nngp * below.ntk)
    C, own_rates = C_OV * C_QK**2, 2 * (lambda_OV / jnp.sqrt(C_OV) + lambda_QK / C_QK)
    return Kernels(C_b + C * Q * K, lambda_b + C * (Q * (Theta + own_rates * K) + 2 * R * K))
