"""Any piecewise-linear network as a list of operations."""

from typing import Any

from jaxtyping import PyTree

from finitewidth._base.foreign import is_torch
from finitewidth.architecture.layer import Layer, Shape, as_shape
from finitewidth.architecture.networks import activations_of
from finitewidth.measure.regions.program import Program
from finitewidth.measure.specimen import Specimen


def piecewise_linear(
    model: Any, entering: Shape | int | None = None, *, params: PyTree | None = None
) -> Program:
    """Any piecewise-linear network as a list of operations, which every measurement of regions takes.

    Parameters
    ----------
    model
        A network of finitewidth's layers, any function of (params, x), a Flax module (linen or nnx), an
        Equinox module (of one input), a PyTorch module, or a `Specimen` of one of them. Known are ReLU, leaky
        ReLU, hard tanh, clipping, absolute values, maxima, max pooling, and everything affine: dense and
        convolutional layers, average pooling, batch normalisation with fixed statistics, residual sums.
    entering
        Shape of one input, such as 2 or (1, 28, 28). A specimen knows it.
    params
        The weights, or a state dict; not needed for models that carry theirs (nnx, Equinox, PyTorch).

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.MLP(hidden=(8, 8), activation="relu")
    >>> fw.measure.regions.piecewise_linear(net, 2, params=net.init(jax.random.key(0), 2)).neurons
    16
    """
    if isinstance(model, Program):
        return model
    if isinstance(model, Specimen):
        entering = model.x.shape[1:]
        model, params = _inside(model)
    if entering is None:
        raise ValueError("entering is missing: say the shape of one input, such as 2 or (1, 28, 28).")
    entering = as_shape("entering", entering)
    if is_torch(model):
        from finitewidth.measure.regions.torch_program import torch_program

        return torch_program(model, entering, params)
    from finitewidth.measure.jax.specimen import as_function
    from finitewidth.measure.regions.jax_program import jax_program

    if isinstance(model, Layer):
        _check_activations(model)
    apply, params = as_function(model, params)
    return jax_program(apply, params, entering)


def _check_activations(net: Layer) -> None:
    """Refuse an activation by the name it has here, not by what it is made of."""
    from finitewidth.measure.regions.jax_program import KNOWN_ACTIVATIONS, jax_program

    for activation in activations_of(net):
        try:
            jax_program(lambda params, x, activation=activation: activation(x), None, (1,))
        except ValueError:
            raise ValueError(
                f"activation {activation.name!r} is not piecewise linear: {KNOWN_ACTIVATIONS}."
            ) from None


def _inside(specimen: Any) -> tuple[Any, Any]:
    """The model of a specimen and its weights."""
    if hasattr(specimen, "module"):
        return specimen.module, specimen.state
    return specimen.apply, specimen.params
