"""Residual networks with one dense layer in every branch: what the theory of order 1/width is known for."""

from typing import NamedTuple

from finitewidth.activations import Activation
from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Dense, Hyperparameters
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Repeat, Sequential


class ResidualStack(NamedTuple):
    r"""$z^1=b+Wx$, blocks $z^{\ell+1}=\alpha z^\ell+\beta\,(b+W\sigma(z^\ell))$, outputs $b+W\sigma(z^M)$."""

    activation: Activation
    width: int
    blocks: int
    alpha: float
    beta: float
    first: Hyperparameters
    block: Hyperparameters
    last: Hyperparameters


def residual_stack(net: Layer) -> ResidualStack | None:
    """The network as a `ResidualStack`; None for any other network."""
    if not (isinstance(net, Sequential) and len(net.layers) == 4):
        return None
    first, repeat, neurons, last = net.layers
    if not (isinstance(first, Dense) and isinstance(repeat, Repeat) and isinstance(neurons, Activate)):
        return None
    block = repeat.layer
    if isinstance(block, Sequential) and len(block.layers) == 1:
        block = block.layers[0]
    if not (isinstance(last, Dense) and isinstance(block, Residual) and not block.shortcut):
        return None
    body = block.body
    if not (len(body) == 2 and isinstance(body[0], Activate) and isinstance(body[1], Dense)):
        return None
    if body[0].activation != neurons.activation or body[1].width != first.width:
        return None
    return ResidualStack(
        neurons.activation, first.width, repeat.times, float(block.alpha), float(block.beta),
        *(Hyperparameters(*map(float, layer.hyperparameters)) for layer in (first, body[1], last)),
    )  # fmt: skip
