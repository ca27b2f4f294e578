"""Layers whose rule is known only together with their neighbours, or is faster so."""

from collections.abc import Iterable
from typing import NamedTuple

import jax.numpy as jnp

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.layer import Layer, Shape, replaced
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.normalisation import LayerNorm


class NormalisedNeurons(NamedTuple):
    """An activation and the LayerNorm right behind it, which subtracts the mean of what the neurons give."""

    neurons: Activate
    norm: LayerNorm

    def leaving(self, entering: Shape) -> Shape:
        return entering


def grouped(layers: Iterable[Layer]) -> list[Layer | NormalisedNeurons]:
    """The layers of a `Sequential`: LayerNorm with the activation right below it, dense layers in a stack.

    Dense layers with the same activation between each two are one `MLP`, whose rule compiles once for all of
    them; one layer by itself costs less as it is.
    """
    return _stacked(_normalised(layers))


def _normalised(layers: Iterable[Layer]) -> list[Layer | NormalisedNeurons]:
    found: list[Layer | NormalisedNeurons] = []
    for layer in layers:
        below = found[-1] if found else None
        if isinstance(layer, LayerNorm) and isinstance(below, Activate):
            found[-1] = NormalisedNeurons(below, layer)
        else:
            found.append(layer)
    return found


def _stacked(layers: list[Layer | NormalisedNeurons]) -> list[Layer | NormalisedNeurons]:
    found: list[Layer | NormalisedNeurons] = []
    start = 0
    while start < len(layers):
        end = _end_of_stack(layers, start)
        stack = layers[start:end]
        found.append(_as_mlp(stack) if len(stack) > 1 else stack[0])
        start = end
    return found


def _end_of_stack(layers: list[Layer | NormalisedNeurons], start: int) -> int:
    """Where the dense layers end that begin here, with one activation between each two."""
    end, neurons = start + 1, None
    while isinstance(layers[start], Dense) and end + 1 < len(layers):
        between, above = layers[end : end + 2]
        if not (isinstance(between, Activate) and isinstance(above, Dense)):
            break
        if neurons is not None and between.activation != neurons.activation:
            break
        neurons, end = between, end + 2
    return end


def _as_mlp(stack: list[Layer | NormalisedNeurons]) -> MLP:
    """The stack as one layer; variances and rates may be traced."""
    dense = [layer for layer in stack if isinstance(layer, Dense)]
    neurons = stack[1]
    assert isinstance(neurons, Activate)
    *hidden, out = (layer.width for layer in dense)
    plain = MLP(hidden, neurons.activation, 0.0, 1.0, n_out=out)
    numbers = {
        name: jnp.stack([jnp.asarray(getattr(layer, name)) for layer in dense])
        for name in ("C_b", "C_W", "lambda_b", "lambda_W")
    }
    return replaced(plain, **numbers)
