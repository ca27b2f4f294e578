r"""The next steps of training: what the network's own tangent kernel says, and what training does.

The linearised network $f_0+J\,w$ with $J=df/d\theta$ at the present weights learns with the kernel $JJ^T$,
which never changes: under gradient descent $f\leftarrow f-\eta\,JJ^T\,dL/df$. Both curves start at the same
weights, see the same points and take the same kind of step, so they part only where the kernel moves.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import log_softmax, softmax

from finitewidth.advice.diagnosis.training import Optimiser, TrainingPlan
from finitewidth.measure.specimen import Specimen, Vector

# Losses beyond this multiple of the first have left for good, and the next would only overflow.
_GONE = 1e6


class NextSteps(NamedTuple):
    """Losses before the first step and after each; the shorter curve ended where it ran away.

    Attributes
    ----------
    predicted
        Of the linearised network, whose tangent kernel stands still.
    trained
        Of the network itself.
    learning_rate
        The step of both.
    """

    predicted: Float[np.ndarray, " steps"]
    trained: Float[np.ndarray, " other_steps"]
    learning_rate: float

    @property
    def diverges(self) -> bool:
        """Whether training ends above where it started."""
        return not self.trained[-1] <= self.trained[0]

    @property
    def difference(self) -> float:
        """Largest distance of the two curves, as a share of the loss at the start."""
        both = min(len(self.predicted), len(self.trained))
        apart = np.abs(self.predicted[:both] - self.trained[:both]).max()
        return float(apart / max(self.trained[0], np.finfo(float).tiny))


class _State(NamedTuple):
    """The loss at some weights, and a function that gives the gradient there."""

    loss: float
    gradient: Callable[[], Vector]


def next_steps(specimen: Specimen, training: TrainingPlan) -> NextSteps | None:
    """Both curves on all points of a specimen.

    None without a learning rate, and for a loss that is a function, whose slope is unknown.
    """
    rate, name, momentum, steps = training
    if rate is None or not isinstance(specimen.loss, str):
        return None

    def trained(shift: Vector) -> _State:
        try:
            moved = specimen.at(specimen.weights + shift)
            return _State(moved.value(), moved.gradient)
        except ValueError:
            # A specimen refuses weights and losses that are not finite; here they are the answer.
            return _State(np.inf, lambda: shift)

    predicted, measured = (
        _curve(state_at, specimen.weights, rate, Optimiser(name, momentum, specimen.weights), steps)
        for state_at in (_Tangent(specimen), trained)
    )
    return NextSteps(predicted, measured, rate)


def _curve(
    state_at: Callable[[Vector], _State], weights: Vector, rate: float, rule: Optimiser, steps: int
) -> Float[np.ndarray, " steps"]:
    shift, losses = np.zeros_like(weights), []
    with np.errstate(over="ignore", invalid="ignore"):
        for step in range(steps + 1):
            state = state_at(shift)
            losses.append(state.loss)
            if step == steps or not state.loss <= _GONE * max(abs(losses[0]), 1.0):
                break
            shift = (shift - rate * rule.direction(state.gradient())).astype(weights.dtype)
    return np.asarray(losses, float)


class _Tangent:
    """The linearised network: its loss and gradient where the weights have moved by a given row."""

    def __init__(self, specimen: Specimen):
        self.specimen = specimen
        self.start = specimen.outputs()

    def __call__(self, shift: Vector) -> _State:
        outputs = self.start + self.specimen.jacobian_product(shift) if shift.any() else self.start
        loss, slope = loss_and_slope(self.specimen.loss, outputs, self.specimen.y)
        cotangent = slope.astype(self.start.dtype)
        return _State(loss, lambda: self.specimen.transposed_jacobian_product(cotangent))


def loss_and_slope(
    loss: object, outputs: Float[np.ndarray, "points out"], labels: np.ndarray | None
) -> tuple[float, Float[np.ndarray, "points out"]]:
    """The mean loss L of some outputs, and dL / d outputs."""
    outputs, labels = np.asarray(outputs, float), np.asarray(labels)
    points = np.arange(len(outputs))
    if loss == "cross_entropy":
        slope = softmax(outputs, axis=1)
        slope[points, labels] -= 1
        return float(-log_softmax(outputs, axis=1)[points, labels].mean()), slope / len(outputs)
    error = outputs - labels.reshape(outputs.shape)
    return float(0.5 * np.sum(error**2) / len(outputs)), error / len(outputs)
