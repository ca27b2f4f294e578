"""How somebody trains, and the steps of his optimiser on a row of weights."""

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from finitewidth.algorithms.optimizers import MOMENTUM, OPTIMIZERS
from finitewidth.measure.specimen import Vector


class TrainingPlan(NamedTuple):
    """How somebody trains: the step, if it is known, the rule with its beta; and how far to look ahead."""

    learning_rate: float | None
    optimizer: str = "sgd"
    momentum: float = MOMENTUM
    steps: int = 40


class Optimiser:
    """A rule that turns the gradients seen so far into the next step, divided by the learning rate."""

    def __init__(self, name: str, momentum: float, weights: Vector):
        self.rule = OPTIMIZERS[name].directions(momentum)
        self.memory: Any = self.rule.init(jnp.asarray(weights))

    def direction(self, gradient: Vector) -> Vector:
        """What to subtract from the weights, in units of the learning rate."""
        direction, self.memory = self.rule.update(jnp.asarray(gradient), self.memory)
        return np.asarray(direction)
