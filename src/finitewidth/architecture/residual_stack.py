"""Residual networks with one dense layer in every branch: what the theory of order 1/width is known for."""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.dense import Dense, Hyperparameters
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Repeat, Sequential


class ResidualBlock(NamedTuple):
    r"""$z\mapsto\alpha z+\beta\,(b+W\sigma(z))$; a plain layer has $\alpha=0$ and $\beta=1$."""

    alpha: float
    beta: float
    dense: Hyperparameters


class ResidualStack(NamedTuple):
    r"""$z^1=b+Wx$, blocks one after the other, outputs $b+W\sigma(z^M)$."""

    activation: Activation
    width: int
    first: Hyperparameters
    blocks: tuple[ResidualBlock, ...]
    last: Hyperparameters


def residual_stack(net: Layer) -> ResidualStack | None:
    """The network as a `ResidualStack`; None for any other network, and for one without a residual block."""
    layers = list(_one_by_one([net]))
    if len(layers) < 4 or not any(isinstance(layer, Residual) for layer in layers):
        return None
    first, *middle, neurons, last = layers
    if not (isinstance(first, Dense) and isinstance(neurons, Activate) and isinstance(last, Dense)):
        return None
    blocks = []
    while middle:
        layer = middle.pop(0)
        if isinstance(layer, Residual):
            if layer.shortcut:
                return None
            body, alpha, beta = list(layer.body), float(layer.alpha), float(layer.beta)
        else:
            body, alpha, beta = [layer, *middle[:1]], 0.0, 1.0
            middle = middle[1:]
        if not (len(body) == 2 and isinstance(body[0], Activate) and isinstance(body[1], Dense)):
            return None
        if body[0].activation != neurons.activation or body[1].width != first.width:
            return None
        blocks.append(ResidualBlock(alpha, beta, _numbers(body[1])))
    return ResidualStack(neurons.activation, first.width, _numbers(first), tuple(blocks), _numbers(last))


def _one_by_one(layers: Iterable[Layer]) -> Iterator[Layer]:
    """The layers in order, those of a `Sequential` one by one and of a `Repeat` as often as it says."""
    for layer in layers:
        if isinstance(layer, Sequential):
            yield from _one_by_one(layer.layers)
        elif isinstance(layer, Repeat):
            yield from list(_one_by_one([layer.layer])) * layer.times
        else:
            yield layer


def _numbers(layer: Dense) -> Hyperparameters:
    return Hyperparameters(*map(float, layer.hyperparameters))
