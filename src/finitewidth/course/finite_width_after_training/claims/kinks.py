"""Trained networks with kinks: mean and variance approach infinite width as 1/sqrt(width)."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.layer import Layer
from finitewidth.course._lab.claim import Check, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, z_score
from finitewidth.course._lab.estimate import Estimate, propagated, stacked
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import shifted
from finitewidth.course.finite_width_after_training.networks.kinked_moments import bent_mean, bent_moments
from finitewidth.course.finite_width_after_training.networks.trained_moments import Ensemble
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.methods.kinks.method import KinkWindows
from finitewidth.prediction.predict import predict
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.report import style
from finitewidth.report.style import Figure

_HARD_TANH = Activation(lambda z: jnp.clip(z, -1, 1), "hard tanh", kink_places=(-1.0, 1.0))
_X = np.array([[1.1, 0.2, -0.5], [0.1, -1.2, 0.8], [0.7, 0.8, 0.2]])
_Y = np.array([[0.9, -0.5], [-0.7, 0.8], [0.5, 1.0]])
_TEST = np.array([[0.3, 0.6, 1.3], [-0.4, -0.3, 0.5]])
# Patients whose kernel is well conditioned, so that training is short, and two that they reach.
_PATIENTS, _TEST_PATIENTS = (263, 65, 340, 138, 258, 309, 272, 269, 291, 147), (123, 336)
# More than three points are sampled.
_SETTINGS = KinkWindows(0.015, 8192)
# The coefficient does not depend on the width; a wide network gives no warning.
_WIDE = 2**20
# How far the fitted power of the width may be from 1/2, for what follows the leading order.
_POWER = 0.2


@dataclass(frozen=True)
class KinkedCase:
    """A few points to learn, one hidden layer, and pairs to train to the end, at half the stable step.

    `outputs` are the columns of the labels that a network learns at once.
    """

    activation: str
    train: int
    pairs: int
    eta: float
    steps: int
    ridge: float = 0.0
    outputs: tuple[int, ...] = (0,)

    @property
    def name(self) -> str:
        return f"{self.activation}, {self.train} learnt" + (f", ridge {self.ridge:g}" if self.ridge else "")

    def network(self, width: int) -> Layer:
        activation = _HARD_TANH if self.activation == _HARD_TANH.name else self.activation
        settings = {"lambda_b": [0.2, 0.1], "lambda_W": 1.0, "n_out": len(self.outputs)}
        return equal_layers(width, 1, activation, [0.1, 0.0], [2.0, 2.0], **settings)

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Points by hand; for more than three, patients of the diabetes table."""
        if self.train <= len(_X):
            return _X[: self.train], _Y[: self.train, list(self.outputs)], _TEST
        from finitewidth.tables.sets import built_in

        table = built_in("diabetes")
        rows = list(_PATIENTS[: self.train])
        return table.x[rows], table.y[rows, :1], table.x[list(_TEST_PATIENTS)]


@dataclass(frozen=True)
class KinkedEnsembles:
    """Cases and widths; a polynomial in 1/sqrt(n) of this degree is fitted, `left` is what it may miss."""

    cases: tuple[KinkedCase, ...]
    widths: tuple[int, ...]
    degree: int
    left: float


def _correction(case: KinkedCase, algorithm: SpectralAlgorithm) -> TrainedDistribution:
    """The law of networks of width _WIDE."""
    x, y, x_test = (jnp.asarray(a) for a in case.data())
    problem = TrainingProblem(case.network(_WIDE), x, y, x_test)
    return predict(problem, algorithm=algorithm, order="1/2", ridge=case.ridge, method=_SETTINGS)


def _law(case: KinkedCase, algorithm: SpectralAlgorithm) -> Float[np.ndarray, "2 test"]:
    """Coefficients of n^(-1/2) in mean and variance of one output."""
    law = _correction(case, algorithm)
    return math.sqrt(_WIDE) * np.stack(
        [np.asarray(law.mean_correction)[:, 0], np.diag(np.asarray(law.covariance_correction))]
    )


def _theory(setting: KinkedEnsembles) -> Prediction:
    coefficients = np.stack([_law(case, GradientDescent(case.eta)) for case in setting.cases])
    return {"mean": coefficients[:, 0], "variance": coefficients[:, 1], "power": np.full(1, 0.5)}


def _of_a_flow(setting: KinkedEnsembles, value: np.ndarray) -> np.ndarray:
    """The coefficients of small steps."""
    return np.stack([_law(case, GradientFlow())[0] for case in setting.cases])


def _held_neurons_drift(setting: KinkedEnsembles, value: np.ndarray) -> np.ndarray:
    """The activation of held neurons goes on as that of the linearised network, below the kink.

    At one training point only slopes of opposite signs hold neurons. The windows of |z| add nothing then.
    """
    absolute = np.array([case.activation == "abs" for case in setting.cases])
    return np.where(absolute[:, None], 0.0, value)


def _by_width(
    setting: KinkedEnsembles, key: PRNGKeyArray, moments: Callable[[Layer, Ensemble, PRNGKeyArray], Estimate]
) -> Estimate:
    """Moments of networks of every width in every case."""
    by_width = []
    for n in setting.widths:
        by_case = []
        for c, case in enumerate(setting.cases):
            x, y, x_test = case.data()
            # Wider networks cost more and have less noise.
            pairs = max(2, int(case.pairs * math.sqrt(setting.widths[0] / n)))
            ensemble = Ensemble(x, y, x_test, case.eta, case.steps, pairs, 0, case.ridge)
            by_case.append(moments(case.network(n), ensemble, jax.random.fold_in(key, c)))
        by_width.append(stacked(by_case))
    return stacked(by_width)


def _measure(setting: KinkedEnsembles, key: PRNGKeyArray) -> Measurement:
    found = _by_width(setting, key, bent_moments)
    return {"mean": found[:, :, 0], "variance": found[:, :, 1]}


def _at_infinity(setting: KinkedEnsembles, found: Estimate) -> Estimate:
    """Value at 1/sqrt(n) = 0 of a weighted polynomial, for every case and test point."""
    powers = np.vander(np.array(setting.widths) ** -0.5, setting.degree + 1, increasing=True)
    weight = 1 / found.sem**2
    normal = np.linalg.inv(np.einsum("np,nct,nq->ctpq", powers, weight, powers))
    value = np.einsum("ctq,nq,nct->ct", normal[..., 0, :], powers, weight * found.value)
    return Estimate(value, np.sqrt(normal[..., 0, 0]), float(np.min(found.dof)))


def _power(setting: KinkedEnsembles, found: Estimate) -> Estimate:
    """-d log |shift| / d log n between the narrowest and the widest networks, all points together."""
    span = math.log(setting.widths[-1] / setting.widths[0])
    size = lambda shift: math.log(float(np.linalg.norm(shift)))
    ends = found[np.array([0, len(setting.widths) - 1])]
    return propagated(lambda v: np.array([0.5 + (size(v[0]) - size(v[1])) / span]), ends)


def _compare(setting: KinkedEnsembles, predicted: Prediction, measured: Measurement) -> list[Check]:
    checks = []
    for name in ("mean", "variance"):
        largest = np.abs(predicted[name]).max(axis=1, keepdims=True)
        at_zero = _at_infinity(setting, measured[name])
        checks.append(
            z_score(
                f"sqrt(n) (network - linearised), {name}", predicted[name], at_zero, setting.left * largest
            )
        )
    checks.append(
        absolute_error("power of the width", predicted["power"], _power(setting, measured["mean"]), _POWER)
    )
    return checks


def _figure(setting: KinkedEnsembles, predicted: Prediction, measured: Measurement) -> Figure:
    figure, panels = style.panels("Kinks: mean and variance move by 1/sqrt(n)", 2)
    inverse = np.array(setting.widths) ** -0.5
    for axes, name in zip(panels, ("mean", "variance"), strict=True):
        for c, t in np.ndindex(*predicted[name].shape):
            color = style.PALETTE[c % len(style.PALETTE)]
            value, sem = measured[name][:, c, t]
            label = f"{setting.cases[c].name}, point {t + 1}"
            style.measured_points(axes, inverse, value, sem, color, label)
            axes.plot(0, predicted[name][c, t], "*", color=color, ms=13, clip_on=False, zorder=4)
        axes.axhline(0, color=style.GREY, lw=0.8)
        axes.set(xlabel=r"$n^{-1/2}$", ylabel=rf"$\sqrt{{n}}$ (shift of the {name})", xlim=(0, None))
    panels[0].legend(fontsize="small")
    return figure


def _theory_of_outputs(setting: KinkedEnsembles) -> Prediction:
    laws = [_correction(case, GradientDescent(case.eta)) for case in setting.cases]
    return {"mean": math.sqrt(_WIDE) * np.stack([np.asarray(law.mean_correction).ravel() for law in laws])}


def _outputs_alone(setting: KinkedEnsembles, value: np.ndarray) -> np.ndarray:
    """Every output moves the neurons as if it were the only one."""
    alone = lambda case, k: _law(dataclasses.replace(case, outputs=(k,)), GradientDescent(case.eta))[0]
    each = [[alone(case, k) for k in case.outputs] for case in setting.cases]
    return np.stack([np.stack(means, axis=1).ravel() for means in each])


def _measure_outputs(setting: KinkedEnsembles, key: PRNGKeyArray) -> Measurement:
    return {"mean": _by_width(setting, key, bent_mean)}


def _compare_outputs(setting: KinkedEnsembles, predicted: Prediction, measured: Measurement) -> list[Check]:
    allowed = setting.left * np.abs(predicted["mean"]).max(axis=1, keepdims=True)
    at_zero = _at_infinity(setting, measured["mean"])
    return [z_score("sqrt(n) (network - linearised), mean", predicted["mean"], at_zero, allowed)]


def _claim(**about: Any) -> Claim:
    wrong = {"mean": (_of_a_flow, _held_neurons_drift), "power": shifted(0.5)}
    return Claim(theory=_theory, measure=_measure, compare=_compare, figure=_figure, wrong=wrong, **about)


CLAIMS = (
    _claim(
        id="trained-kinks",
        title="networks with kinks approach infinite width as 1/sqrt(n), with a predicted coefficient",
        statement=(
            "Trained by gradient descent, networks whose activation has kinks differ from their linearised "
            "partners by c/sqrt(n) in mean and variance, because neurons near a kink at a training point "
            "cross it, are held at it or leave it by their own sign. c is predicted and depends on the step "
            "size; a correction of order 1/n is excluded."
        ),
        source=f"{BEYOND}: {BOOK}, chapter infinity, for activations with kinks",
        quick=KinkedEnsembles(
            (KinkedCase("hard tanh", 1, 24_000, 0.32, 20), KinkedCase("abs", 1, 6000, 0.2, 20)),
            (64, 256),
            1,
            0.15,
        ),
        full=KinkedEnsembles(
            (
                KinkedCase("relu", 1, 20_000, 0.37, 20),
                KinkedCase("relu", 3, 16_000, 0.22, 140),
                KinkedCase("relu", 10, 28_000, 0.065, 140),
                KinkedCase("relu", 1, 40_000, 0.27, 55, ridge=0.5),
                KinkedCase("abs", 1, 20_000, 0.2, 20),
            ),
            (64, 256, 1024, 4096),
            2,
            0.05,
        ),
    ),
    Claim(
        id="trained-kinks-outputs",
        title="the same for two outputs, which are coupled",
        statement=(
            "With several outputs a neuron near its kink is moved by all residuals at once, and every output "
            "differs from its linearised partner by a predicted c/sqrt(n). Outputs that move neurons each "
            "for itself would have another c."
        ),
        source=f"{BEYOND}: {BOOK}, chapter infinity, for activations with kinks",
        quick=KinkedEnsembles(
            (KinkedCase("relu", 1, 24_000, 0.37, 20, outputs=(0, 1)),), (256, 4096), 1, 0.02
        ),
        full=KinkedEnsembles(
            (
                KinkedCase("relu", 1, 60_000, 0.37, 20, outputs=(0, 1)),
                KinkedCase("relu", 3, 60_000, 0.22, 140, outputs=(0, 1)),
            ),
            (256, 1024, 4096),
            1,
            0.02,
        ),
        theory=_theory_of_outputs,
        measure=_measure_outputs,
        compare=_compare_outputs,
        wrong={"mean": _outputs_alone},
    ),
)
