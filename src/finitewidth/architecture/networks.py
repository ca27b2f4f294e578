"""Questions about a whole network, answered from its layers."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.dense import AffineLayer, Dense, Hyperparameters
from finitewidth.architecture.dropout import Dropout
from finitewidth.architecture.layer import Layer, Shape, replaced
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.parametrisation import NTK, Parametrisation
from finitewidth.architecture.sequential import Sequential


def check_network(net: object) -> None:
    """Refuse what is not a network described by layers."""
    if not isinstance(net, Layer):
        given = getattr(net, "__name__", type(net).__name__)
        raise TypeError(
            "net must be a network of layers, such as fw.MLP, which says how networks are drawn and trained, "
            f"got {given}; a function of (params, x) has its place in empirical_ntk, expand and train."
        )


def parametrisation_of(net: Layer) -> Parametrisation:
    """How variances and rates scale with width; "ntk" for a layer that stands alone."""
    return net.parametrisation if isinstance(net, MLP | Sequential) else NTK()


def activations_of(net: Layer) -> tuple[Activation, ...]:
    """The different activations of a network, in the order in which they first appear."""
    neurons = (Activate, MLP)
    found = jax.tree.leaves(net, is_leaf=lambda node: isinstance(node, neurons))
    return tuple(dict.fromkeys(node.activation for node in found if isinstance(node, neurons)))


def input_biases(net: Layer) -> Array | float | None:
    """C_b of the layer that the inputs enter; None where that is not an affine layer."""
    first = net.layers[0] if isinstance(net, Sequential) and net.layers else net
    if not isinstance(first, MLP | AffineLayer):
        return None
    C_b = 0.0 if first.C_b is None else first.C_b
    # Within jit an entry of a known array would not be known.
    return C_b if isinstance(C_b, Tracer) else float(np.ravel(np.asarray(C_b))[0])


def layer_shapes(net: Layer, entering: Shape) -> list[tuple[Layer, Shape, Shape]]:
    """Every simple layer of the network, with the shapes of one input before and behind it."""
    found = []
    for part in net.parts():
        leaving = part.leaving(entering)
        found.append((part, entering, leaving))
        entering = leaving
    return found


def hidden_widths(net: Layer, entering: Shape) -> tuple[int, ...]:
    """Channels that leave each layer with parameters but the last one."""
    found = layer_shapes(net, entering)
    widths = [leaving[-1] for part, below, leaving in found if part.has_parameters(below)]
    return tuple(widths[:-1])


def refuse_random_passes(net: Layer, what: str) -> None:
    """Refuse a network with `Dropout`, whose passes in training are random, where none is drawn."""
    if _contains(net, Dropout):
        raise ValueError(f"{what}, and the network has Dropout layers: take them out.")


def _contains(net: Layer, kind: type[Layer]) -> bool:
    found = [isinstance(net, kind)]
    net.with_inner(lambda inner: (found.append(_contains(inner, kind)), inner)[1])
    return any(found)


def with_outputs(net: Layer, outputs: int, entering: Shape) -> Layer:
    """The same network with another number of outputs; only a last layer that is dense can change it."""
    if net.leaving(entering) == (outputs,):
        return net
    if isinstance(net, MLP):
        return replaced(net, n_out=outputs)
    if isinstance(net, Sequential) and isinstance(net.layers[-1], Dense):
        return replaced(net, layers=(*net.layers[:-1], replaced(net.layers[-1], width=outputs)))
    raise ValueError(
        f"the labels have {outputs} columns and the network has outputs of shape {net.leaving(entering)}; "
        "they must agree."
    )


def settings_of(net: Layer) -> dict[str, Any]:
    """The network in terms that JSON can hold; two networks have the same only if they are equal."""
    if not isinstance(net, MLP):
        numbers = jax.tree.leaves(eqx.filter(net, eqx.is_array_like))
        return {"network": eqx.tree_pformat(net), "numbers": [np.asarray(leaf).tolist() for leaf in numbers]}
    return {
        "hidden": list(net.hidden),
        "activation": net.activation.name,
        "n_out": net.n_out,
        **{name: values.tolist() for name, values in net.hyperparameters._asdict().items()},
        "parametrisation": repr(net.parametrisation),
    }


def dense_stack(net: Layer, what: str = "this") -> MLP:
    """The network as an `MLP`; `what` is known only for dense layers with one activation between each two."""
    if isinstance(net, MLP):
        return net
    check_network(net)
    parts = net.parts()
    dense = [layer for layer in parts[::2] if isinstance(layer, Dense)]
    neurons = [layer for layer in parts[1::2] if isinstance(layer, Activate)]
    if len(dense) != len(neurons) + 1 or len(dense) + len(neurons) != len(parts):
        names = " ".join(type(layer).__name__ for layer in parts)
        raise ValueError(
            f"{what} is known for dense layers with an activation between each two, Dense Activate ... "
            f"Dense; the network is {names}."
        )
    kinds = {layer.activation for layer in neurons}
    if len(kinds) > 1:
        named = ", ".join(sorted(kind.name for kind in kinds))
        raise ValueError(f"{what} is known for one activation throughout; the network has {named}.")
    rows = [layer.hyperparameters for layer in dense]
    stacked = Hyperparameters(*(jnp.stack(column) for column in zip(*rows, strict=True)))
    widths = [layer.width for layer in dense]
    return MLP(
        widths[:-1],
        kinds.pop() if kinds else "linear",
        **stacked._asdict(),
        n_out=widths[-1],
        parametrisation=parametrisation_of(net),
    )


def is_dense_stack(net: Layer) -> bool:
    """Whether `dense_stack` has an answer."""
    try:
        dense_stack(net)
    except ValueError:
        return False
    return True
