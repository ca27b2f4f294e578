"""Descent: the steps of an optimiser on a loss, for `follow`."""

from abc import abstractmethod
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Int, PyTree

from finitewidth._base.follow import Moving
from finitewidth.networks.training.optimizers import Optimizer

# One object, so that a second call finds the program of the first.
_PLAIN = optax.identity()


class Weights(NamedTuple):
    """Parameters, and what their optimiser remembers."""

    params: PyTree
    memory: PyTree


class Descent(Moving):
    """Steps of an optimiser on a loss of (params, own, drawn); `drawn` is what is random in one step.

    A recipe is a subclass with its arrays as fields and a loss. Models are fields, never methods of others.
    """

    params: eqx.AbstractVar[PyTree]
    optimizer: eqx.AbstractVar[Optimizer]

    @abstractmethod
    def loss(self, params: PyTree, own: Any, drawn: Any) -> Float[Array, ""]:
        """What is descended."""

    def draw(self, t: Int[Array, ""], own: Any) -> Any:
        """Batches or noise: what the loss of step t gets besides."""
        return None

    def start(self, own: Any) -> PyTree:
        """The first parameters."""
        return self.params

    def stepping(self, own: Any) -> Optimizer:
        """The optimiser of one copy."""
        return self.optimizer

    def begin(self, own: Any) -> Weights:
        params = self.start(own)
        return Weights(params, self.stepping(own).init(params))

    def step(self, state: Weights, t: Int[Array, ""], own: Any) -> Weights:
        gradient = jax.grad(self.loss)(state.params, own, self.draw(t, own))
        return Weights(*self.stepping(own).step(gradient, state.memory, state.params, t))


def gradient_descent(params: PyTree, eta: Array | float, rates: PyTree = 1.0) -> Optimizer:
    """Steps of eta * rates against the gradient; rates are one number or a tree of them."""
    return Optimizer("sgd", _PLAIN, jax.tree.broadcast(rates, params), jnp.asarray(eta))
