"""The law of one channel at infinite width, layer by layer: where the rules hold, and where they do not.

An activation averages over a Gaussian channel of mean zero. Random weights give one whatever enters them; an
activation, a product or a concatenation does not. Branches are added only if what they add is uncorrelated.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.concat import Concat
from finitewidth.architecture.dense import AFFINE
from finitewidth.architecture.dropout import Dropout
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.normalisation import LayerNorm, RMSNorm
from finitewidth.architecture.product import Product
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.sequential import Repeat, Sequential
from finitewidth.architecture.sums import Sum
from finitewidth.statistics.wide.rules.grouping import NormalisedNeurons, grouped


class Channels(NamedTuple):
    """What is known about the channels that leave a layer.

    Attributes
    ----------
    source
        The layer they come from, for messages.
    gaussian
        Whether they are Gaussian with mean zero and independent of each other.
    independent
        Whether random weights stand between them and the point where the branches part, or the inputs.
    gained
        Whether a trained gain acts on them: what it adds to the NTK of a channel then depends on the channel.
    """

    source: str
    gaussian: bool
    independent: bool
    gained: bool = False


INPUTS = Channels("the inputs", gaussian=False, independent=False)


def check_limit(net: Layer) -> None:
    """Refuse a network whose limit of infinite width the rules do not describe; names the layer."""
    channels(net, INPUTS)


@functools.singledispatch
def channels(layer: Layer, entering: Channels) -> Channels:
    """The channels that leave a layer; those that enter, unless it registers otherwise."""
    return entering


def affine_channels(layer: Layer, entering: Channels) -> Channels:
    """Sums over many inputs with random weights: Gaussian, and independent of all that was there before."""
    return Channels(type(layer).__name__, gaussian=True, independent=True)


for _affine in (MLP, *AFFINE):
    channels.register(_affine, affine_channels)


@channels.register
def _(layer: Activate, entering: Channels) -> Channels:
    if not entering.gaussian:
        raise ValueError(
            f"Activate({layer.activation.name!r}) stands behind {entering.source}, whose channels are not "
            "Gaussian at infinite width: its kernels are known behind Dense layers, sums and norms of them."
        )
    if entering.gained:
        raise ValueError(
            f"Activate({layer.activation.name!r}) stands behind a norm with a gain: what a gain adds to the "
            "NTK is known in front of random weights; put a Dense layer between them, or leave the gain out."
        )
    return Channels("Activate", gaussian=False, independent=entering.independent)


@channels.register
def _(layer: LayerNorm, entering: Channels) -> Channels:
    if not entering.gaussian:
        raise ValueError(
            f"LayerNorm stands behind {entering.source}, whose mean over channels does not vanish: its "
            "kernels are known right behind an Activate, and behind Dense layers, sums and norms of them; "
            "RMSNorm has kernels everywhere."
        )
    return entering._replace(source="LayerNorm", gained=entering.gained or layer.lambda_g is not None)


@channels.register
def _(layer: RMSNorm, entering: Channels) -> Channels:
    return entering._replace(source="RMSNorm", gained=entering.gained or layer.lambda_g is not None)


@channels.register
def _(layer: NormalisedNeurons, entering: Channels) -> Channels:
    behind = channels(layer.neurons, entering)
    return behind._replace(source="LayerNorm", gained=layer.norm.lambda_g is not None)


@channels.register
def _(layer: Dropout, entering: Channels) -> Channels:
    if entering.source == INPUTS.source:
        raise ValueError(
            "Dropout stands behind the inputs, of which there are finitely many: the kernels stay random at "
            "infinite width; put it behind a layer of the network."
        )
    return Channels("Dropout", gaussian=False, independent=entering.independent)


@channels.register
def _(layer: Sequential, entering: Channels) -> Channels:
    for inner in grouped(layer.layers):
        entering = channels(inner, entering)
    return entering


@channels.register
def _(layer: Repeat, entering: Channels) -> Channels:
    for _ in range(min(layer.times, 2)):
        entering = channels(layer.layer, entering)
    return entering


@channels.register
def _(layer: Residual, entering: Channels) -> Channels:
    ways = [layer.branch] if layer.around_branch is None else [layer.branch, layer.around_branch]
    found = _of_each(ways, entering)
    return _added("Residual", found if len(found) == 2 else [*found, entering._replace(independent=False)])


@channels.register
def _(layer: Sum, entering: Channels) -> Channels:
    return _added("Sum", _of_each(layer.branches, entering))


@channels.register
def _(layer: Product, entering: Channels) -> Channels:
    found = _of_each(layer.branches, entering)
    dependent = [branch.source for branch in found if not branch.independent]
    if len(dependent) > 1:
        raise ValueError(
            "a Product multiplies branches that are independent given what enters; here two of them, "
            f"ending in {dependent[0]} and {dependent[1]}, have no random weights of their own."
        )
    return Channels("Product", gaussian=False, independent=not dependent)


@channels.register
def _(layer: Concat, entering: Channels) -> Channels:
    found = _of_each(layer.branches, entering)
    return Channels("Concat", gaussian=False, independent=all(branch.independent for branch in found))


def _of_each(ways: Sequence[Layer], entering: Channels) -> list[Channels]:
    start = entering._replace(independent=False)
    return [channels(way, start) for way in ways]


def _added(name: str, found: list[Channels]) -> Channels:
    """Outputs that are added: all but one must end in random weights of their own."""
    unfit = [branch.source for branch in found if not (branch.independent and branch.gaussian)]
    if len(unfit) > 1:
        raise ValueError(
            f"a {name} adds branches that are uncorrelated given what enters: all but one must end in random "
            f"weights, such as a Dense layer; here two of them end in {unfit[0]} and {unfit[1]}."
        )
    everything = all(branch.gaussian for branch in found)
    gained = any(branch.gained for branch in found)
    return Channels(name, everything, all(branch.independent for branch in found), gained)
