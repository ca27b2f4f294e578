r"""Averages over one neuron at one input, for every activation that is continuous.

With one label only total derivatives occur, and those are derivatives with respect to the variance:
$\langle f''\rangle_K=2\,d\langle f\rangle_K/dK$. A kink at zero stays at zero when K changes, so each
half-line is integrated and differentiated on its own and no delta functions arise.
"""

import functools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.activations import Activation
from finitewidth.expectations.kinked.kinks import value_and_slope
from finitewidth.expectations.quadrature import gaussian_rule
from finitewidth.statistics.first_order.fluctuations import Averages


class _Squares(NamedTuple):
    """<sigma^2> and <sigma'^2>."""

    value: Float[Array, ""]
    slope: Float[Array, ""]


def one_input_averages(activation: Activation, K: float) -> Averages:
    r"""What the fluctuations of one input need, from derivatives of $\langle\sigma^2\rangle$ and
    $\langle\sigma'^2\rangle$.

    Of the averages whose derivatives add up to the same order only the sum has a meaning at a kink;
    it is stored in one of them.
    """
    (g, h), (dg, dh), (ddg, ddh), fourth = _responses(activation, jnp.asarray(K, dtype=float))
    M = np.zeros((6, 6, 1, 1))
    M[0, 0], M[1, 1] = g, h
    M[2, 0] = M[0, 2] = dg - h
    M[3, 1] = M[1, 3] = dh
    M[4, 0] = M[0, 4] = 2 * ddg - 4 * dh
    M[5, 1] = M[1, 5] = 2 * ddh
    signatures = ((0, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 1))
    return Averages(M, {s: np.full((1,) * 4, float(f)) for s, f in zip(signatures, fourth, strict=True)})


@eqx.filter_jit
def _responses(activation: Activation, K: Float[Array, ""]):
    """Both squares with their first two derivatives in K; <s^4>, <s^2 s'^2> and <s'^4>."""
    rule = gaussian_rule()

    def squares(K):
        value, slope = value_and_slope(activation.function, jnp.sqrt(K) * rule.nodes)
        return _Squares(value**2 @ rule.weights, slope**2 @ rule.weights)

    def slope(function, K):
        return jax.jvp(function, (K,), (jnp.ones_like(K),))[1]

    first = functools.partial(slope, squares)
    value, derivative = value_and_slope(activation.function, jnp.sqrt(K) * rule.nodes)
    fourth = [f @ rule.weights for f in (value**4, value**2 * derivative**2, derivative**4)]
    return squares(K), first(K), slope(first, K), fourth
