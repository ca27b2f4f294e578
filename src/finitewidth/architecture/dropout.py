"""Dropout: channels of each input are left out at random while a network is trained."""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, PRNGKeyArray

from finitewidth._base.checks import as_number
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.parametrisation import Geometry
from finitewidth.architecture.vocabulary import Entry, word
from finitewidth.architecture.weights import Law, Precision


@word("Dropout")
class Dropout(Layer):
    """Keeps every number with probability `keep`, divided by `keep`, and puts zero in place of the others.

    Every input has masks of its own. They are drawn by `training_pass`; `apply` is the evaluated network,
    in which dropout does nothing.
    """

    keep: float = eqx.field(static=True)

    def __init__(self, keep: float):
        self.keep = as_number("keep", keep)
        if not 0 < self.keep <= 1:
            raise ValueError(f"keep is a probability above zero, at most one; got {keep}.")

    @classmethod
    def from_entry(cls, entry: Entry) -> "Dropout":
        return cls(entry.number("keep"))

    def entry(self) -> dict[str, object]:
        return {"layer": "Dropout", "keep": self.keep}

    def leaving(self, entering: Shape) -> Shape:
        return entering

    def init(
        self, key: PRNGKeyArray, entering: Shape | int, *, weights: Law = "gaussian", dtype: Precision = float
    ) -> tuple[()]:
        return ()

    def apply(self, params: tuple[()], x: Array) -> Array:
        return x

    def training_pass(self, params: tuple[()], x: Array, key: PRNGKeyArray) -> Array:
        kept = jax.random.bernoulli(key, self.keep, x.shape)
        return jnp.where(kept, x / self.keep, 0)

    def learning_rates(self, entering: Shape | int, geometry: Geometry = "gradient") -> tuple[()]:
        return ()
