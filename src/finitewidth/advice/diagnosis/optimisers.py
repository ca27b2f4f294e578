"""The steps of gradient descent, momentum, Nesterov and Adam, on a row of weights."""

import abc
from typing import Literal, NamedTuple, get_args

import numpy as np

from finitewidth.measure.specimen import Vector

Name = Literal["sgd", "momentum", "nesterov", "adam"]
NAMES: tuple[str, ...] = get_args(Name)

_SECOND_MOMENT, _EPSILON = 0.999, 1e-8


class Training(NamedTuple):
    """How somebody trains: the step, if it is known, the rule with its beta; and how far to look ahead."""

    learning_rate: float | None
    optimizer: Name = "sgd"
    momentum: float = 0.9
    steps: int = 40


class Optimiser(abc.ABC):
    """A rule that turns the gradients seen so far into the next step, divided by the learning rate."""

    @abc.abstractmethod
    def direction(self, gradient: Vector) -> Vector:
        """What to subtract from the weights, in units of the learning rate."""


class Descent(Optimiser):
    """Gradient descent."""

    def direction(self, gradient: Vector) -> Vector:
        return gradient


class Momentum(Optimiser):
    """Heavy ball: v <- beta v + g; with `ahead`, Nesterov's step g + beta v."""

    def __init__(self, beta: float, ahead: bool):
        self.beta, self.ahead = beta, ahead
        self.velocity: Vector | float = 0.0

    def direction(self, gradient: Vector) -> Vector:
        self.velocity = self.beta * self.velocity + gradient
        return gradient + self.beta * self.velocity if self.ahead else np.asarray(self.velocity)


class Adam(Optimiser):
    """Adam from a fresh state, with the usual 0.999 and 1e-8."""

    def __init__(self, beta: float):
        self.beta = beta
        self.first: Vector | float = 0.0
        self.second: Vector | float = 0.0
        self.steps = 0

    def direction(self, gradient: Vector) -> Vector:
        self.steps += 1
        self.first = self.beta * self.first + (1 - self.beta) * gradient
        self.second = _SECOND_MOMENT * self.second + (1 - _SECOND_MOMENT) * gradient**2
        mean = self.first / (1 - self.beta**self.steps)
        square = self.second / (1 - _SECOND_MOMENT**self.steps)
        return mean / (np.sqrt(square) + _EPSILON)


def optimiser(name: Name, momentum: float) -> Optimiser:
    """A rule by its name, at rest; `momentum` is the beta of momentum and Nesterov, and Adam's first."""
    if name == "sgd":
        return Descent()
    return Adam(momentum) if name == "adam" else Momentum(momentum, ahead=name == "nesterov")
