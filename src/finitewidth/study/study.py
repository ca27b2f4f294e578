"""A study: one data set, one network, its predicted law, and the networks trained to check it."""

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import GradientDescent
from finitewidth.dynamics.kernel_descent import largest_eigenvalue
from finitewidth.prediction.curves import LossCurves, loss_curves
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.held_out import choose_ridge, fitted_noise, held_out
from finitewidth.prediction.infinite_width import TrainingProblem
from finitewidth.prediction.predict import predict
from finitewidth.prediction.votes import winning_probability
from finitewidth.statistics.mercer import mercer
from finitewidth.study.preparation import Prepared
from finitewidth.study.scores import ClassificationScores, RegressionScores
from finitewidth.verification.result import Verification
from finitewidth.verification.stopping import stop
from finitewidth.verification.verify import verify

_CURVE_POINTS = 80
_END = 10**6


class Choices(NamedTuple):
    """The network, how it is trained, and how many real ones to train; "auto" is chosen from the data."""

    hidden: tuple[int, ...]
    activation: str
    C_b: float | None = None
    C_W: float | None = None
    eta: float | Literal["auto"] = "auto"
    steps: float | int = math.inf
    ridge: float | Literal["auto"] = "auto"
    networks: int = 0
    most_steps: int = 10_000
    seed: int = 0


class Alignment(NamedTuple):
    """Eigenvalues of the training NTK over the number of rows, and the share of the target in the modes."""

    eigenvalues: Float[np.ndarray, " modes"]
    cumulative_power: Float[np.ndarray, " modes"]


class Study(NamedTuple):
    """Everything that a prediction and its report consist of.

    Attributes
    ----------
    algorithm, ridge
        As used, with every choice made.
    ridge_chosen
        Whether the ridge was chosen from the training data.
    law
        Distribution of trained networks at the test rows, in standardised units.
    noise
        Variance of labels beyond the spread of networks, likewise.
    curves
        Predicted loss per row, in standardised units.
    scores
        None when the test rows have no target.
    verification
        None when no networks were trained.
    """

    data: Prepared
    net: MLP
    choices: Choices
    algorithm: GradientDescent
    ridge: float
    ridge_chosen: bool
    largest_eta: float
    law: TrainedDistribution
    noise: float
    alignment: Alignment
    curves: LossCurves
    scores: RegressionScores | ClassificationScores | None
    verification: Verification | None

    @property
    def mean(self) -> Float[np.ndarray, "test out"]:
        """Mean over networks, in units of the target."""
        return self.data.center + self.data.unit * np.asarray(self.law.mean)

    @property
    def spread(self) -> Float[np.ndarray, " test"]:
        """Standard deviation over networks, in units of the target."""
        return self.data.unit * np.asarray(self.law.std)

    @property
    def std(self) -> Float[np.ndarray, " test"]:
        """Standard deviation of a prediction: networks and label noise together."""
        return self.data.unit * np.sqrt(np.asarray(self.law.std) ** 2 + self.noise)

    @property
    def probability(self) -> Float[np.ndarray, "test classes"]:
        """Probability of each class at every test row."""
        return winning_probability(np.asarray(self.law.mean), np.asarray(self.law.std) ** 2 + self.noise)


def run_study(
    data: Prepared, choices: Choices, announce: Callable[[str], None] = lambda stage: None
) -> Study:
    """Predict, score, and with `choices.networks` train real networks and compare.

    Parameters
    ----------
    data
        What `prepare` returned.
    choices
        Network and training.
    announce
        Called with a few words at the start of each stage.
    """
    out = data.y_train.shape[1]
    net = MLP(choices.hidden, choices.activation, choices.C_b, choices.C_W, n_out=out)
    announce("kernels")
    problem = TrainingProblem.of(net, data.x_train, data.y_train, data.x_test)
    asked = GradientDescent(choices.eta, choices.steps)
    announce("ridge and label noise")
    ridge, chosen = _ridge(problem, asked, choices.ridge, data)
    largest = largest_eigenvalue(problem.train.ntk) + ridge
    algorithm = asked.resolved(largest)
    announce("prediction")
    law = predict(net, data.x_train, data.y_train, data.x_test, algorithm, ridge=ridge)
    noise = fitted_noise(held_out(problem, algorithm, ridge), data.y_train, data.labels).variance
    modes = mercer(problem.train.ntk)
    study = Study(
        data=data,
        net=net,
        choices=choices,
        algorithm=algorithm,
        ridge=ridge,
        ridge_chosen=chosen,
        largest_eta=2 / largest,
        law=law,
        noise=noise,
        alignment=Alignment(np.asarray(modes.eigenvalues), np.asarray(modes.cumulative_power(data.y_train))),
        curves=_curves(problem, law, algorithm, ridge, data),
        scores=None,
        verification=None,
    )
    study = study._replace(scores=_scores(study))
    if not choices.networks:
        return study
    announce("networks")
    check = verify(
        law,
        choices.networks,
        key=jax.random.key(choices.seed),
        y_test=data.y_test,
        dtype=jnp.float32,
        most_steps=choices.most_steps,
        progress=True,
    )
    return study._replace(verification=check)


def _ridge(
    problem: TrainingProblem, algorithm: GradientDescent, asked: float | Literal["auto"], data: Prepared
) -> tuple[float, bool]:
    if asked != "auto":
        return float(asked), False
    if not algorithm.converged:
        return 0.0, False
    return choose_ridge(problem, algorithm, data.labels).ridge, True


def _curves(
    problem: TrainingProblem,
    law: TrainedDistribution,
    algorithm: GradientDescent,
    ridge: float,
    data: Prepared,
) -> LossCurves:
    """Loss at steps that grow in proportion, until training ends or hardly changes the prediction."""
    last = stop(problem, law, algorithm, ridge, 100, _END).algorithm.steps
    steps = np.unique(np.round(np.geomspace(1, max(last, 1), _CURVE_POINTS)).astype(int)).tolist()
    return loss_curves(problem, algorithm, [0, *steps] if last else [0], data.y_test, ridge=ridge)


def _scores(study: Study) -> RegressionScores | ClassificationScores | None:
    data = study.data
    if data.y_test is None:
        return None
    if data.labels_test is not None:
        return ClassificationScores.of(study.probability, data.labels_test)
    values = data.center + data.unit * data.y_test[:, 0]
    return RegressionScores.of(study.mean[:, 0], study.std, values)
