"""A study: one data set, one network, its predicted law, and the networks trained to check it."""

import math
import warnings
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int
from threadpoolctl import threadpool_limits

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.layer import Layer, Shape
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import with_outputs
from finitewidth.architecture.spec import network
from finitewidth.prediction.law.class_probabilities import winning_probability
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.large_law import LargeLaw
from finitewidth.prediction.law.numerical_error import check_rounding
from finitewidth.prediction.law.pointwise import PointwiseLaw
from finitewidth.prediction.methods.infinite_width.curves import LossCurves, loss_curves
from finitewidth.prediction.methods.infinite_width.ridge import choose_ridge, fitted_noise, held_out
from finitewidth.prediction.methods.infinite_width.trained import pointwise_law
from finitewidth.prediction.methods.large.budget import check_memory, chosen_solver
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.prediction.selection.early_stopping import choose_stop
from finitewidth.statistics.wide.rounding import kernel_rounding
from finitewidth.tables.study.baselines import Baseline, baselines
from finitewidth.tables.study.corrected_law import chosen_order, shown_law
from finitewidth.tables.study.preparation import Prepared
from finitewidth.tables.study.scores import ClassificationScores, RegressionScores, root_mean_square
from finitewidth.verification.result import Verification
from finitewidth.verification.stopping import stop

_CURVE_POINTS = 80
_END = 10**6
# Below, threads of BLAS and of boosted trees wait for each other longer than they work.
_ROWS_FOR_THREADS = 1_000

Law = TrainedDistribution | PointwiseLaw | LargeLaw


class Choices(NamedTuple):
    """The network, how it is trained, and how many real ones to train; "auto" is chosen from the data.

    `stop="auto"` stops training where training rows that were left out are predicted best, and takes no ridge
    unless one is given. `order="auto"` adds the correction in 1/width where it takes less than half a minute.
    `networks="enough"` trains as many as notice a spread that is wrong by `detect`, 0.05 if there is none.
    `compare` also fits other methods to the same rows. `network`, a table that `finitewidth.network` reads,
    takes the place of `hidden`, `activation` and the variances; its last layer gets the outputs it needs.
    """

    hidden: tuple[int, ...]
    activation: str
    C_b: float | None = None
    C_W: float | None = None
    eta: float | Literal["auto"] = "auto"
    steps: float | int = math.inf
    stop: Literal["end", "auto"] = "end"
    ridge: float | Literal["auto"] = "auto"
    order: Literal[0, 1, "1/2", "auto"] = 0
    networks: int | Literal["enough"] = 0
    detect: float | None = None
    most_steps: int = 10_000
    most_samples: int = 300_000
    seed: int = 0
    compare: bool = True
    network: Mapping[str, Any] | None = None
    solver: str = "auto"
    memory: int | None = None
    store: str | None = None
    scheduler: str | None = None

    def net(self, entering: Shape, outputs: int) -> Layer:
        """The network for inputs of this shape and so many outputs."""
        if self.network is None:
            if len(entering) > 1:
                raise ValueError(
                    f"the data are images of shape {entering}: give a network that takes them, as --network."
                )
            return MLP(self.hidden, self.activation, self.C_b, self.C_W, n_out=outputs)
        return with_outputs(network(self.network, n_out=outputs), outputs, entering)


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
    ridge_chosen, stop_chosen
        Whether the ridge, or the number of steps, was chosen from the training data.
    law
        Distribution of trained networks at the test rows, in standardised units. Without a correction and
        without real networks there are variances only, no covariance.
    remark
        Why the law has no correction in 1/width, where that needs to be said.
    noise
        Variance of labels beyond the spread of networks, likewise.
    curves
        Predicted loss per row, in standardised units; None beyond the rows whose kernels fit into memory.
    scores
        None when the test rows have no target.
    verification
        None when no networks were trained.
    left_out
        Scores at the training rows, each predicted by networks that have not seen it. The ridge was chosen
        by these rows, so they flatter a little. None where no row was left out.
    baselines
        What other methods reach at the test rows.
    """

    data: Prepared
    net: Layer
    choices: Choices
    algorithm: GradientDescent
    ridge: float
    ridge_chosen: bool
    stop_chosen: bool
    largest_eta: float
    law: Law
    remark: str
    noise: float
    alignment: Alignment
    curves: LossCurves | None
    scores: RegressionScores | ClassificationScores | None
    verification: Verification | None
    left_out: RegressionScores | ClassificationScores | None
    baselines: tuple[Baseline, ...] = ()

    @property
    def mean(self) -> Float[np.ndarray, "test out"]:
        """Mean over networks, in units of the target."""
        return self.data.center + self.data.unit * np.asarray(self.law.mean)

    @property
    def spread(self) -> Float[np.ndarray, " test"]:
        """Standard deviation over networks, in units of the target."""
        return self.data.unit * np.asarray(self.law.std)

    @property
    def infinite_spread(self) -> Float[np.ndarray, " test"]:
        """The same at infinite width."""
        return self.data.unit * np.asarray(self.law.infinite_width.std)

    @property
    def std(self) -> Float[np.ndarray, " test"]:
        """Standard deviation of a prediction: networks and label noise together."""
        return self.data.unit * np.sqrt(np.asarray(self.law.std) ** 2 + self.noise)

    @property
    def small_number(self) -> str:
        """What the correction for finite width is proportional to."""
        return "1/sqrt(width)" if self.choices.order == "1/2" else "1/width"

    @property
    def correction_sizes(self) -> dict[str, float]:
        """Root mean squares over test rows, in units of the target, of what finite width adds by origin.

        Empty for a correction of one origin only, as kinks make it.
        """
        correction = self.law.correction
        parts = (
            correction.origin._asdict() if correction is not None and correction.origin is not None else {}
        )
        return {name: self.data.unit * root_mean_square(part) for name, part in parts.items()}

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
    with threadpool_limits(None if len(data.x_train) >= _ROWS_FOR_THREADS else 1):
        return _run(data, choices, announce)


def _run(data: Prepared, choices: Choices, announce: Callable[[str], None]) -> Study:
    net = choices.net(data.x_train.shape[1:], data.y_train.shape[1])
    asked = GradientDescent(choices.eta, choices.steps)
    order = chosen_order(net, len(data.x_train) + len(data.x_test), choices.order)
    # Then modes of the kernels and variances are all that is needed.
    lean = order.order == 0 and not choices.networks and asked.converged and choices.stop == "end"
    solver, why = chosen_solver(
        choices.solver, len(data.x_train), len(data.x_test), choices.memory, covariance=not lean
    )
    if solver != "direct":
        from finitewidth.tables.study.large import run_large_study

        return run_large_study(data, net, choices, solver, why, check_memory(choices.memory), announce)
    announce("kernels")
    rows = data.x_train, data.y_train, data.x_test
    problem = TrainingProblem.in_modes(net, *rows) if lean else TrainingProblem.of(net, *rows).diagonalised()
    announce("ridge and label noise")
    ridge, chosen = _ridge(problem, asked, choices, data)
    largest = float(problem.spectrum().eigenvalues[-1]) + ridge
    algorithm = asked.resolved(largest)
    if choices.stop == "auto":
        announce("when to stop")
        algorithm = algorithm.stopped(choose_stop(problem, algorithm, data.labels, ridge=ridge).at)
    announce("prediction")
    if lean:
        rounding = kernel_rounding(net, problem.x_train, problem.x_test)
        law, remark = pointwise_law(problem, algorithm, ridge=ridge, rounding=rounding), order.remark
        if law.numerical_error is not None:
            check_rounding(law.numerical_error, ridge, single=False)
    else:
        law, remark = shown_law(
            problem,
            algorithm,
            ridge,
            order,
            most_samples=choices.most_samples,
            seed=choices.seed,
            announce=announce,
        )
    left_out = held_out(problem, algorithm, ridge)
    noise = fitted_noise(left_out, data.y_train, data.labels).variance
    expected = np.asarray(law.mean), np.asarray(law.std) ** 2 + noise
    study = Study(
        data=data,
        net=net,
        choices=choices,
        algorithm=algorithm,
        ridge=ridge,
        ridge_chosen=chosen,
        stop_chosen=choices.stop == "auto",
        largest_eta=2 / largest,
        law=law,
        remark=remark,
        noise=noise,
        alignment=_alignment(problem),
        curves=_curves(problem, law, algorithm, ridge, data),
        scores=None if data.y_test is None else scored(data, *expected, data.y_test, data.labels_test),
        verification=None,
        left_out=scored(data, left_out.mean, left_out.variance + noise, data.y_train, data.labels),
    )
    if choices.compare:
        announce("other methods")
        study = study._replace(baselines=baselines(data, np.asarray(law.mean)))
    if not choices.networks:
        return study
    assert isinstance(law, TrainedDistribution)
    # Only here: what trains networks takes a tenth of a second to import.
    from finitewidth.verification.verify import verify

    announce("networks")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the expansion in 1/.* is not small")
        check = verify(
            law,
            None if choices.detect else choices.networks,
            detect=choices.detect,
            key=jax.random.key(choices.seed),
            y_test=data.y_test,
            dtype=jnp.float32,
            most_steps=choices.most_steps,
            progress=True,
            scheduler=choices.scheduler,
        )
    return study._replace(verification=check)


def _ridge(
    problem: TrainingProblem, algorithm: GradientDescent, choices: Choices, data: Prepared
) -> tuple[float, bool]:
    if choices.ridge != "auto":
        return float(choices.ridge), False
    if not algorithm.converged or choices.stop == "auto":
        return 0.0, False
    return choose_ridge(problem, algorithm, data.labels).ridge, True


def _alignment(problem: TrainingProblem) -> Alignment:
    assert problem.modes is not None
    return Alignment(*problem.modes.cumulative_power(problem.y))


def _curves(
    problem: TrainingProblem,
    law: TrainedDistribution | PointwiseLaw,
    algorithm: GradientDescent,
    ridge: float,
    data: Prepared,
) -> LossCurves:
    """Loss at steps that grow in proportion, until training ends or hardly changes the prediction."""
    last = stop(problem, law, algorithm, ridge, 100, _END).algorithm.steps
    steps = np.unique(np.round(np.geomspace(1, max(last, 1), _CURVE_POINTS)).astype(int)).tolist()
    return loss_curves(problem, algorithm, [0, *steps] if last else [0], data.y_test, ridge=ridge)


def scored(
    data: Prepared,
    mean: Float[np.ndarray, "rows out"],
    variance: Float[np.ndarray, " rows"],
    y: Float[np.ndarray, "rows out"],
    labels: Int[np.ndarray, " rows"] | None,
) -> RegressionScores | ClassificationScores:
    """Scores of predictions in standardised units, those of numbers in units of the target."""
    if labels is not None:
        return ClassificationScores.of(winning_probability(mean, variance), labels)
    predicted, values = (data.center + data.unit * column[:, 0] for column in (mean, y))
    return RegressionScores.of(predicted, data.unit * np.sqrt(variance), values)
