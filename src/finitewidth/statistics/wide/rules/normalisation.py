r"""Norms: $K\mapsto K/(r_1r_2)$ and $\Theta\mapsto\Theta/(r_1r_2)$ with $r^2=K_{aa}+\epsilon$.

The norm's own derivative is of order 1/width and drops out. A LayerNorm behind neurons also subtracts their
mean $m=\langle\sigma\rangle$: $K\mapsto(\langle\sigma_1\sigma_2\rangle-m_1m_2)/(d_1d_2)$ with
$d^2=\langle\sigma^2\rangle-m^2+\epsilon$. A gain and a shift add $\lambda_gK+\lambda_s$ to the NTK of
what random weights above read.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth.architecture.activations import Activation
from finitewidth.architecture.normalisation import Normalisation
from finitewidth.expectations.quadrature import gaussian_rule
from finitewidth.statistics.wide.rules.grouping import NormalisedNeurons
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, outer
from finitewidth.statistics.wide.rules.positions import pointwise


class Centred(NamedTuple):
    """What a LayerNorm behind neurons must know of each input."""

    neurons: PyTree
    mean: Float[Array, " n"]
    inverse: Float[Array, " n"]


def _inverse(variance: Array, epsilon: float) -> Array:
    """1/r, and zero for an input without variance where epsilon is zero."""
    square = variance + epsilon
    alive = square > 0
    return jnp.where(alive, 1 / jnp.sqrt(jnp.where(alive, square, 1)), 0)


def _divided(norm: Normalisation, nngp: Array, ntk: Array, factor: Array) -> Kernels:
    """Both kernels times `factor`, and what gain and shift add."""
    nngp, ntk = nngp * factor, ntk * factor
    if norm.lambda_g is not None:
        ntk = ntk + norm.lambda_g.astype(ntk.dtype) * nngp
    return Kernels(nngp, ntk if norm.lambda_s is None else ntk + norm.lambda_s.astype(ntk.dtype))


def _own(layer: Normalisation, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    inverse = _inverse(below.nngp, layer.epsilon)
    return _divided(layer, *below, inverse**2), inverse


def _cross(layer: Normalisation, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    return _divided(layer, *below, outer(rows, columns))


def _own_behind_neurons(layer: NormalisedNeurons, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    activation = layer.neurons.activation
    law, mean = laws[activation], mean_value(activation, below.nngp)
    value, slope = law.moments(below.nngp)
    variance = value - mean**2
    inverse = _inverse(variance, layer.norm.epsilon)
    above = _divided(layer.norm, variance, slope * below.ntk, inverse**2)
    return above, Centred(law.features(below.nngp), mean, inverse)


def _cross_behind_neurons(
    layer: NormalisedNeurons, below: Kernels, rows: Centred, columns: Centred, laws: PairLaws
) -> Kernels:
    value, slope = laws[layer.neurons.activation].pair(rows.neurons, columns.neurons, below.nngp)
    covariance = value - outer(rows.mean, columns.mean)
    return _divided(layer.norm, covariance, slope * below.ntk, outer(rows.inverse, columns.inverse))


def mean_value(activation: Activation, q: Float[Array, " n"]) -> Float[Array, " n"]:
    r"""$\langle\sigma\rangle$ for preactivations of variance q."""
    nodes, weights = gaussian_rule()
    std = jnp.sqrt(jnp.where(q > 0, q, 1)) * (q > 0)
    return (activation(std[:, None] * nodes) @ weights).astype(q.dtype)


pointwise(_own, _cross)
pointwise(_own_behind_neurons, _cross_behind_neurons, fence=True)
