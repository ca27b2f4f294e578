"""Neurons: an activation applied to every number on its own."""

from collections.abc import Callable

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from finitewidth.activations import Activation, as_activation
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.parametrisation import Geometry
from finitewidth.architecture.weights import Draw


class Activate(Layer):
    """An activation, given by its name, as an `Activation` or as any elementwise function."""

    activation: Activation = eqx.field(static=True)

    def __init__(self, activation: str | Activation | Callable[[Array], Array]):
        self.activation = as_activation(activation)

    def leaving(self, entering: Shape) -> Shape:
        return entering

    def init(
        self,
        key: PRNGKeyArray,
        entering: Shape | int,
        *,
        weights: str | Draw = "gaussian",
        dtype: jnp.dtype | type = float,
    ) -> tuple[()]:
        return ()

    def apply(self, params: tuple[()], x: Array) -> Array:
        return self.activation(x)

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> tuple[()]:
        return ()
