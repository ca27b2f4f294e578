"""Neurons: an activation applied to every number on its own."""

import equinox as eqx
from jaxtyping import Array, PRNGKeyArray

from finitewidth._base.arrays import Elementwise
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.parametrisation import Geometry
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision


@word("Activation")
class Activate(Layer):
    """An activation, given by its name, as an `Activation` or as any elementwise function."""

    activation: Activation = eqx.field(static=True)

    def __init__(self, activation: str | Activation | Elementwise):
        self.activation = as_activation(activation)

    @classmethod
    def from_entry(cls, entry: Entry) -> "Activate":
        return cls(entry.text("name"))

    def entry(self) -> dict[str, object]:
        if not self.activation.built_in:
            raise ValueError(
                f"the activation {self.activation.name!r} is a function of your own; a spec holds built-in "
                "activations only, by their names."
            )
        return {"layer": "Activation", "name": self.activation.name}

    def leaving(self, entering: Shape) -> Shape:
        return entering

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> tuple[()]:
        return ()

    def apply(self, params: tuple[()], x: Array) -> Array:
        return self.activation(x)

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> tuple[()]:
        return ()
