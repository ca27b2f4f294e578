"""The law that a study shows: with the correction in 1/width where it is asked for, or quick and small."""

import warnings
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import numpy as np

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import dense_stack, is_dense_stack
from finitewidth.expectations.four_factors.derivative_moments import is_smooth
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.methods.first_order.choice import ByNumberOfPoints
from finitewidth.prediction.methods.first_order.sampled.method import SampledNeurons
from finitewidth.prediction.methods.kinks.method import KinkWindows
from finitewidth.prediction.predict import predict
from finitewidth.prediction.problem.training_problem import TrainingProblem

# What nobody asked for may take as long.
_LONGEST_SECONDS = 30.0
# Standard errors, relative to the corrections of mean and variances, of what nobody asked for.
_COARSE = 0.2
# Compilation, kernels and first samples; then each hidden layer and output of 400 rows.
_STARTING_SECONDS, _SECONDS_PER_LAYER, _ROWS = 10.0, 2.7, 400


Order = Literal[0, 1, "1/2"]


class ShownLaw(NamedTuple):
    """A law, and a sentence that says why it has no correction in 1/width; empty where that needs none."""

    law: TrainedDistribution
    remark: str = ""


class ChosenOrder(NamedTuple):
    """Which correction to compute, whether it was asked for, and, where one was left out, why."""

    order: Order
    asked: bool
    remark: str = ""


def estimated_seconds(net: MLP, points: int) -> float:
    """How long the correction in 1/width takes on two cores, compilation included, to a fifth of itself.

    Rows, training and test together, enter by products with matrices of their size; every hidden layer needs
    samples of its own, and every output has its own residuals. On diabetes with three hidden layers 189 rows
    took 24 seconds of a busy core, 442 rows 40.
    """
    work = len(net.hidden) * net.n_out * (points / _ROWS) ** 2
    return _STARTING_SECONDS + _SECONDS_PER_LAYER * work


def chosen_order(net: Layer, points: int, order: Literal[0, 1, "1/2", "auto"]) -> ChosenOrder:
    """ "auto" adds the correction in 1/width where there is one and it is quick; `points` are all rows."""
    if order != "auto":
        return ChosenOrder(order, order != 0)
    if not is_dense_stack(net):
        return ChosenOrder(0, False)
    stack = dense_stack(net)
    if not is_smooth(stack.activation.function) or min(stack.hidden, default=0) <= 1:
        return ChosenOrder(0, False)
    seconds = estimated_seconds(stack, points)
    if seconds <= _LONGEST_SECONDS:
        return ChosenOrder(1, False)
    remark = f"Not computed, as it would take some {seconds:.0f} seconds: --order 1 does it."
    return ChosenOrder(0, False, remark)


def shown_law(
    problem: TrainingProblem,
    algorithm: GradientDescent,
    ridge: float,
    chosen: ChosenOrder,
    *,
    most_samples: int,
    seed: int,
    announce: Callable[[str], None],
) -> ShownLaw:
    """The trained distribution; sampling reports how far it has come."""
    order, asked, remark = chosen
    if order == 0:
        return ShownLaw(predict(problem, None, None, None, algorithm, ridge=ridge), remark)

    def report(done: float, error: float) -> None:
        announce(f"correction for finite width: {100 * done:.0f} %, standard error {100 * error:.0f} %")

    accuracy = {} if asked else {"relative_error": _COARSE, "covariance_error": _COARSE}
    sampled = SampledNeurons(most_samples=most_samples, key=jax.random.key(seed), **accuracy)
    method = KinkWindows(key=sampled.key) if order == "1/2" else ByNumberOfPoints(sampled)
    with warnings.catch_warnings():
        # The study says in its table and its report how far to trust the correction.
        warnings.filterwarnings("ignore", message="the expansion in 1/.* is not small")
        law = predict(
            problem, None, None, None, algorithm, order, ridge=ridge, method=method, progress=report,
        )  # fmt: skip
    if asked or law.correction is None or _is_small(law):
        return ShownLaw(law)
    remark = f"The law is that of infinite width, since its correction is not small. {law.validity.words}"
    return ShownLaw(predict(problem, None, None, None, algorithm, ridge=ridge), remark)


def _is_small(law: TrainedDistribution) -> bool:
    return law.validity.small and bool((np.diag(np.asarray(law.covariance)) > 0).all())
