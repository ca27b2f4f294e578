"""Questions about a whole network, answered from its layers."""

import jax
import jax.numpy as jnp
from jaxtyping import Array

from finitewidth.activations import Activation
from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Dense, Hyperparameters
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.parametrisation import NTK, Parametrisation
from finitewidth.architecture.sequential import Repeat, Sequential


def check_network(net: object) -> None:
    """Refuse what is not a network described by layers."""
    if not isinstance(net, Layer):
        given = getattr(net, "__name__", type(net).__name__)
        raise TypeError(
            "net must be an MLP or another network of layers, which says how networks are drawn and trained, "
            f"got {given}; a function of (params, x) has its place in empirical_ntk, expand and train."
        )


def parametrisation_of(net: Layer) -> Parametrisation:
    """How variances and rates scale with width; "ntk" for a layer that stands alone."""
    return net.parametrisation if isinstance(net, MLP | Sequential) else NTK()


def activations(net: Layer) -> tuple[Activation, ...]:
    """The different activations of a network, in the order in which they first appear."""
    neurons = (Activate, MLP)
    found = jax.tree.leaves(net, is_leaf=lambda node: isinstance(node, neurons))
    return tuple(dict.fromkeys(node.activation for node in found if isinstance(node, neurons)))


def input_biases(net: Layer) -> Array | None:
    """C_b of the layer that the inputs enter; None where that is not an affine layer."""
    first = net.layers[0] if isinstance(net, Sequential) and net.layers else net
    if isinstance(first, MLP):
        return first.C_b[0]
    return first.hyperparameters.C_b if isinstance(first, Dense) else None


def dense_stack(net: Layer) -> MLP:
    """The network as an `MLP`; refuses all but dense layers with one activation between each two."""
    if isinstance(net, MLP):
        return net
    layers = _unrolled(net)
    dense, between = layers[::2], layers[1::2]
    names = {type(layer).__name__ for layer in layers}
    alternating = (
        len(layers) % 2 == 1
        and all(isinstance(layer, Dense) for layer in dense)
        and all(isinstance(layer, Activate) for layer in between)
    )
    if not alternating or not isinstance(net, Sequential):
        raise ValueError(
            f"this needs dense layers with an activation between each two, Dense, Activate, Dense, ...; "
            f"the network has {', '.join(sorted(names))}."
        )
    kinds = {layer.activation for layer in between if isinstance(layer, Activate)}
    if len(kinds) > 1:
        named = ", ".join(sorted(kind.name for kind in kinds))
        raise ValueError(f"this needs one activation throughout; the network has {named}.")
    rows = [layer.hyperparameters for layer in dense if isinstance(layer, Dense)]
    stacked = Hyperparameters(*(jnp.stack(column) for column in zip(*rows, strict=True)))
    widths = [layer.width for layer in dense if isinstance(layer, Dense)]
    activation = kinds.pop() if kinds else "linear"
    return MLP(
        widths[:-1], activation, **stacked._asdict(), n_out=widths[-1], parametrisation=net.parametrisation
    )


def _unrolled(layer: Layer) -> list[Layer]:
    if isinstance(layer, Repeat):
        return _unrolled(layer.layer) * layer.times
    if isinstance(layer, Sequential):
        return [inner for part in layer.layers for inner in _unrolled(part)]
    return [layer]
