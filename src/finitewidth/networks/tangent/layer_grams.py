r"""The NTK of a stack of dense layers as products of small Gram matrices.

With $\delta^{(\ell)}_{i;a} = \partial z^{(L)}_{i;a}/\partial z^{(\ell)}_{a}$ and the layer's inputs
$s^{(\ell-1)}_a$, the gradient with respect to a weight matrix is the outer product of the two, so

$$H_{ij;ab} = \sum_\ell (\delta^{(\ell)}_{i;a}\cdot\delta^{(\ell)}_{j;b})
\,\bigl(\lambda_b + \lambda_W\, s^{(\ell-1)}_a\cdot s^{(\ell-1)}_b\bigr)$$

needs no array with as many entries as the network has parameters.
"""

import functools
import operator
from collections.abc import Iterator
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth.architecture.dense import Affine, Dense
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import dense_stack
from finitewidth.architecture.sequential import Repeat, Sequential

_SMALLEST_IN_STRIPS = 256
_STRIPS = 4


class Factors(NamedTuple):
    """Both factors of every layer's gradient at a set of inputs."""

    inputs: list[Float[Array, "n fan_in"]]
    deltas: list[Float[Array, "out n fan_out"]]


def gradient_factors(net: Layer, params: PyTree, x: Array) -> Factors:
    """Inputs of all layers, and the sensitivities of all but the last, whose own is the identity."""
    net.check(params, x)
    activation, layers = dense_stack(net).activation, affine_layers(net, params)
    inputs, slopes = [x], []
    for weight, bias in layers[:-1]:
        z = inputs[-1] @ weight.T + bias
        value, slope = jax.jvp(activation, (z,), (jnp.ones_like(z),))
        inputs.append(value)
        slopes.append(slope)
    deltas = []
    for layer, slope in zip(layers[:0:-1], slopes[::-1], strict=True):
        pulled = deltas[-1] @ layer.weight if deltas else layer.weight[:, None, :]
        deltas.append(pulled * slope)
    return Factors(inputs, deltas[::-1])


def layer_kernels(net: Layer, rates: PyTree, left: Factors, right: Factors, outputs: str = "all") -> PyTree:
    """Part of each leaf of the parameters in the NTK between two sets of inputs.

    Of all pairs of outputs (out, out, n1, n2), of their "diagonal" (out, n1, n2), or of its "mean" (n1, n2).
    """
    n_out, dtype = dense_stack(net).n_out, left.inputs[0].dtype
    identity = {
        "all": jnp.eye(n_out, dtype=dtype)[:, :, None, None],
        "diagonal": jnp.ones((n_out, 1, 1), dtype),
        "mean": jnp.ones((), dtype),
    }[outputs]
    products = {"all": _products, "diagonal": _equal_outputs, "mean": _mean_of_outputs}[outputs]
    layers = []
    for l, rate in enumerate(affine_layers(net, rates)):
        inputs = _gram(left.inputs[l], right.inputs[l])
        if l < len(left.deltas):
            deltas = products(left.deltas[l], right.deltas[l])
        else:
            deltas = identity * jnp.ones_like(inputs)
        layers.append(Affine(rate.weight * inputs * deltas, rate.bias * deltas))
    return _like_params(net, iter(layers))


def affine_layers(net: Layer, params: PyTree) -> list[Affine]:
    """Weight and bias of every dense layer, from the inputs to the outputs."""
    if isinstance(net, Sequential):
        each = (affine_layers(inner, own) for inner, own in zip(net.layers, params, strict=True))
        return [layer for inner in each for layer in inner]
    if isinstance(net, Repeat):
        # A learning rate is one number for all repetitions, a parameter has an axis of them.
        part = lambda t: jax.tree.map(lambda a: a[t] if jnp.ndim(a) else a, params)
        return [layer for t in range(net.times) for layer in affine_layers(net.layer, part(t))]
    if isinstance(net, MLP):
        return list(params)
    return [params] if isinstance(net, Dense) else []


def _like_params(net: Layer, layers: Iterator[Affine]) -> PyTree:
    """The way back: what belongs to every dense layer as a tree like the parameters, repetitions added up."""
    if isinstance(net, Sequential):
        return tuple(_like_params(inner, layers) for inner in net.layers)
    if isinstance(net, Repeat):
        each = [_like_params(net.layer, layers) for _ in range(net.times)]
        return functools.reduce(lambda a, b: jax.tree.map(operator.add, a, b), each)
    if isinstance(net, MLP):
        return tuple(next(layers) for _ in range(net.depth))
    return next(layers) if isinstance(net, Dense) else ()


def _products(
    left: Float[Array, "out n1 fan_out"], right: Float[Array, "out n2 fan_out"]
) -> Float[Array, "out out n1 n2"]:
    """Inner products of all pairs, as one matrix product."""
    (n_out, n1, fan), n2 = left.shape, right.shape[1]
    rows = left.reshape(n_out * n1, fan)
    flat = _gram(rows, rows if right is left else right.reshape(n_out * n2, fan))
    return flat.reshape(n_out, n1, n_out, n2).swapaxes(1, 2)


def _equal_outputs(
    left: Float[Array, "out n1 fan_out"], right: Float[Array, "out n2 fan_out"]
) -> Float[Array, "out n1 n2"]:
    """Inner products of every output with itself."""
    return left @ right.swapaxes(1, 2)


def _mean_of_outputs(
    left: Float[Array, "out n1 fan_out"], right: Float[Array, "out n2 fan_out"]
) -> Float[Array, "n1 n2"]:
    """Their mean over the outputs, as one matrix product."""
    rows, columns = (side.swapaxes(0, 1).reshape(side.shape[1], -1) for side in (left, right))
    return rows @ columns.T / len(left)


def _gram(left: Float[Array, "n1 f"], right: Float[Array, "n2 f"]) -> Float[Array, "n1 n2"]:
    """Inner products of rows; of a set with itself, only the upper triangle is computed, in strips."""
    n = len(left)
    if left is not right or n < _SMALLEST_IN_STRIPS:
        return left @ right.T
    size = -(-n // _STRIPS)
    strips = [jnp.pad(left[i : i + size] @ left[i:].T, ((0, 0), (i, 0))) for i in range(0, n, size)]
    upper = jnp.concatenate(strips)
    return jnp.where(jnp.triu(jnp.ones((n, n), bool)), upper, upper.T)


def bytes_per_point(net: Layer, n_in: int, itemsize: int) -> int:
    """Memory that the gradient factors of one input take."""
    stack = dense_stack(net)
    return itemsize * (n_in + sum(stack.hidden) * (2 + stack.n_out))
