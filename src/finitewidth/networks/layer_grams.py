r"""The NTK of a multilayer perceptron as products of small Gram matrices.

With $\delta^{(\ell)}_{i;a} = \partial z^{(L)}_{i;a}/\partial z^{(\ell)}_{a}$ and the layer's inputs
$s^{(\ell-1)}_a$, the gradient with respect to a weight matrix is the outer product of the two, so

$$H_{ij;ab} = \sum_\ell (\delta^{(\ell)}_{i;a}\cdot\delta^{(\ell)}_{j;b})
\,\bigl(\lambda_b + \lambda_W\, s^{(\ell-1)}_a\cdot s^{(\ell-1)}_b\bigr)$$

needs no array with as many entries as the network has parameters.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.architecture import MLP, Affine, Params

_SMALLEST_IN_STRIPS = 256
_STRIPS = 4


class Factors(NamedTuple):
    """Both factors of every layer's gradient at a set of inputs."""

    inputs: list[Float[Array, "n fan_in"]]
    deltas: list[Float[Array, "out n fan_out"]]


def gradient_factors(net: MLP, params: Params, x: Array) -> Factors:
    """Inputs of all layers, and the sensitivities of all but the last, whose own is the identity."""
    net.check(params, x)
    inputs, slopes = [x], []
    for weight, bias in params[:-1]:
        z = inputs[-1] @ weight.T + bias
        value, slope = jax.jvp(net.activation, (z,), (jnp.ones_like(z),))
        inputs.append(value)
        slopes.append(slope)
    deltas = []
    for layer, slope in zip(params[:0:-1], slopes[::-1], strict=True):
        pulled = deltas[-1] @ layer.weight if deltas else layer.weight[:, None, :]
        deltas.append(pulled * slope)
    return Factors(inputs, deltas[::-1])


def layer_kernels(net: MLP, rates: Params, left: Factors, right: Factors) -> Params:
    """Each parameter group's part of the NTK between two sets of inputs, (out, out, n1, n2)."""
    identity = jnp.eye(net.n_out, dtype=left.inputs[0].dtype)[:, :, None, None]
    layers = []
    for l, rate in enumerate(rates):
        inputs = _gram(left.inputs[l], right.inputs[l])
        if l < net.depth - 1:
            deltas = _products(left.deltas[l], right.deltas[l])
        else:
            deltas = identity * jnp.ones_like(inputs)
        layers.append(Affine(rate.weight * inputs * deltas, rate.bias * deltas))
    return tuple(layers)


def _products(
    left: Float[Array, "out n1 fan_out"], right: Float[Array, "out n2 fan_out"]
) -> Float[Array, "out out n1 n2"]:
    """Inner products of all pairs, as one matrix product."""
    (n_out, n1, fan), n2 = left.shape, right.shape[1]
    rows = left.reshape(n_out * n1, fan)
    flat = _gram(rows, rows if right is left else right.reshape(n_out * n2, fan))
    return flat.reshape(n_out, n1, n_out, n2).swapaxes(1, 2)


def _gram(left: Float[Array, "n1 f"], right: Float[Array, "n2 f"]) -> Float[Array, "n1 n2"]:
    """Inner products of rows; of a set with itself, only the upper triangle is computed, in strips."""
    n = len(left)
    if left is not right or n < _SMALLEST_IN_STRIPS:
        return left @ right.T
    size = -(-n // _STRIPS)
    strips = [jnp.pad(left[i : i + size] @ left[i:].T, ((0, 0), (i, 0))) for i in range(0, n, size)]
    upper = jnp.concatenate(strips)
    return jnp.where(jnp.triu(jnp.ones((n, n), bool)), upper, upper.T)


def bytes_per_point(net: MLP, n_in: int, itemsize: int) -> int:
    """Memory that the gradient factors of one input take."""
    return itemsize * (n_in + sum(net.hidden) * (2 + net.n_out))
