"""What the experiments need from a network: its outputs and its learning-rate tensor."""

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float, PyTree

from finitewidth._base.checks import as_numbers
from finitewidth._base.foreign import check_function, check_params
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.parametrisation import Geometry

Apply = Callable[[Any, Any], Array]
Inputs = np.ndarray | Array | list


class Model(eqx.Module):
    """A function of (params, x) with one output vector per input, and its learning rates."""

    @abc.abstractmethod
    def __call__(self, params: PyTree, x: Array) -> Float[Array, "n out"]:
        """Outputs at every input."""

    @abc.abstractmethod
    def default_rates(self, params: PyTree, entering: Shape, geometry: Geometry) -> PyTree:
        """The learning-rate tensor as a tree with one number or array per leaf of params.

        `entering` is the shape of one input.
        """


class Network(Model):
    """A network described by layers."""

    layer: Layer

    def __call__(self, params: PyTree, x: Array) -> Float[Array, "n out"]:
        return self.layer.apply(params, x).reshape(len(x), -1)

    def default_rates(self, params: PyTree, entering: Shape, geometry: Geometry) -> PyTree:
        return self.layer.learning_rates(entering, geometry)


class Function(Model):
    """Any function of (params, x) that treats every input on its own."""

    function: Apply

    def __call__(self, params: PyTree, x: Array) -> Float[Array, "n out"]:
        outputs = self.function(params, x)
        if jnp.ndim(outputs) == 0 or outputs.shape[0] != x.shape[0]:
            raise ValueError(
                f"the function turned {x.shape[0]} inputs into shape {jnp.shape(outputs)}; "
                "its first axis must be the inputs."
            )
        return outputs.reshape(x.shape[0], -1)

    def default_rates(self, params: PyTree, entering: Shape, geometry: Geometry) -> PyTree:
        return 1.0


def as_model(apply_or_net: "Layer | Apply | Model") -> Model:
    """A `Model` from a network of layers, or from any function of (params, x)."""
    if isinstance(apply_or_net, Model):
        return apply_or_net
    if isinstance(apply_or_net, Layer):
        return Network(apply_or_net)
    check_function(apply_or_net)
    return Function(apply_or_net)


def check_arguments(model: Model, params: PyTree, x: Array) -> None:
    """Refuse parameters that the model does not take, or that are not numbers to be trained."""
    if isinstance(model, Network):
        model.layer.check(params, x)
    check_params(params)


def rate_tree(
    model: Model, params: PyTree, entering: Shape, rates: PyTree | None, geometry: Geometry
) -> PyTree:
    """One rate per leaf of params: those given, or else those of the model for inputs of one shape."""
    given = model.default_rates(params, entering, geometry) if rates is None else rates
    if any(isinstance(rate, str) for rate in jax.tree.leaves(given)):
        raise ValueError(f"rates must be one number, or a tree with one per leaf of params, got {rates!r}.")
    try:
        full = jax.tree.broadcast(given, params)
    except ValueError:
        raise ValueError(
            f"rates is a tree {jax.tree.structure(given)} that does not fit params, "
            f"{jax.tree.structure(params)}: give one number, or one per leaf."
        ) from None
    return jax.tree.map(lambda rate, leaf: jnp.asarray(rate, leaf.dtype), full, params)


def as_points(name: str, x: Inputs, model: Model | None = None) -> Array:
    """x as an array whose first axis counts the points, all of them finite.

    Numbers are real, except that a function of the user's own gets whole numbers as they are, for its
    embeddings.
    """
    x = as_numbers(name, x)
    if not jnp.issubdtype(x.dtype, jnp.floating) and (model is None or isinstance(model, Network)):
        x = x.astype(float)
    if x.ndim < 2 or 0 in x.shape:
        raise ValueError(
            f"{name} must have shape (points, features) with at least one of each, got {x.shape}."
        )
    if not isinstance(x, Tracer) and not np.isfinite(np.asarray(x)).all():
        raise ValueError(f"{name} holds NaN or infinite values.")
    return x
