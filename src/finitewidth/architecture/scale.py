"""Multiplication by a constant."""

import equinox as eqx
from jaxtyping import Array, PRNGKeyArray

from finitewidth._base.checks import as_number
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.parametrisation import Geometry
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision


@word("Scale")
class Scale(Layer):
    """Multiplies by `factor`; a factor of one is the identity."""

    factor: float = eqx.field(static=True)

    def __init__(self, factor: float):
        self.factor = as_number("factor", factor)

    @classmethod
    def from_entry(cls, entry: Entry) -> "Scale":
        return cls(entry.number("factor"))

    def entry(self) -> dict[str, object]:
        return {"layer": "Scale", "factor": self.factor}

    def leaving(self, entering: Shape) -> Shape:
        return entering

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> tuple[()]:
        return ()

    def apply(self, params: tuple[()], x: Array) -> Array:
        return self.factor * x

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> tuple[()]:
        return ()
