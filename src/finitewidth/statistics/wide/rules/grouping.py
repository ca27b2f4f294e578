"""Layers whose rule is known only together with the layer below them."""

from collections.abc import Iterable
from typing import NamedTuple

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.normalisation import LayerNorm


class NormalisedNeurons(NamedTuple):
    """An activation and the LayerNorm right behind it, which subtracts the mean of what the neurons give."""

    neurons: Activate
    norm: LayerNorm

    def leaving(self, entering: Shape) -> Shape:
        return entering


def grouped(layers: Iterable[Layer]) -> list[Layer | NormalisedNeurons]:
    """The layers of a `Sequential`, an activation and a LayerNorm right behind it taken together."""
    found: list[Layer | NormalisedNeurons] = []
    for layer in layers:
        below = found[-1] if found else None
        if isinstance(layer, LayerNorm) and isinstance(below, Activate):
            found[-1] = NormalisedNeurons(below, layer)
        else:
            found.append(layer)
    return found
