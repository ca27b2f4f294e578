"""Linear models: kernel regression, the residual under gradient descent, and its end."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import expm

from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.kernel_descent import Spectrum, smoother
from finitewidth.course._instruments import weight_descent as linear
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, compare_each
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import DAY_2
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.kernel_regression.theory.ridge import ridge_regression

_NOTES = DAY_2


@dataclass(frozen=True)
class LinearModel(RandomProblem):
    """A random linear model with more features than points, and steps as multiples of 1 / lambda_max."""

    points: int
    features: int
    at: tuple[int, ...]
    edges: tuple[float, ...] = (0.73, 1.30, 1.95)
    tests: int = 4

    @property
    def problem(self) -> linear.LinearProblem:
        """The same data for prediction and measurement."""
        return linear.random_problem(self.points, self.features, self.tests, self.rng())

    def steps(self) -> Float[np.ndarray, " etas"]:
        """The step sizes."""
        return np.array(self.edges) / linear.largest_curvature(self.problem)


def _kernels(problem: linear.LinearProblem) -> tuple[Float[Array, "train train"], Float[Array, "test train"]]:
    return jnp.asarray(problem.train @ problem.train.T), jnp.asarray(problem.test @ problem.train.T)


def _rounding(setting: LinearModel, value: np.ndarray) -> float:
    return linear.rounding(setting.problem, setting.steps())


def _two_forms_theory(setting: LinearModel) -> Prediction:
    kernel, reach = _kernels(setting.problem)
    return {"output": ridge_regression(kernel, setting.problem.y[:, None]).predict(reach)[:, 0]}


def _two_forms_measure(setting: LinearModel, key) -> Measurement:
    problem = setting.problem
    weights = np.linalg.lstsq(problem.train, problem.y, rcond=None)[0]
    return {"output": exact(problem.test @ weights)}


def _propagator_theory(setting: LinearModel) -> Prediction:
    problem = setting.problem
    spectrum = Spectrum.of(_kernels(problem)[0])
    start = problem.train @ problem.start - problem.y
    residual = [
        [spectrum.residual_map(GradientDescent(eta, t)) @ start for t in setting.at]
        for eta in setting.steps().tolist()
    ]
    return {"residual": np.array(residual)}


def _propagator_measure(setting: LinearModel, key) -> Measurement:
    problem = setting.problem
    weights = linear.descend(problem, setting.steps(), setting.at)
    return {"residual": exact(weights @ problem.train.T - problem.y)}


def _any_time_theory(setting: LinearModel) -> Prediction:
    problem = setting.problem
    kernel, reach = _kernels(problem)
    start, gap = problem.test @ problem.start, problem.y - problem.train @ problem.start
    output = [
        [start + smoother(kernel, reach, GradientDescent(eta, t)) @ gap for t in setting.at]
        for eta in setting.steps().tolist()
    ]
    end = start + smoother(kernel, reach, DirectOptimization()) @ gap
    return {"output": np.array(output), "end": np.asarray(end)}


def _any_time_measure(setting: LinearModel, key) -> Measurement:
    problem = setting.problem
    weights = linear.descend(problem, setting.steps(), setting.at)
    first = setting.steps()[:1]
    long = linear.descend(problem, first, (linear.steps_to_rounding(problem, first),))
    return {"output": exact(weights @ problem.test.T), "end": exact(problem.test @ long[0, 0])}


def _eta_theory(setting: LinearModel) -> Prediction:
    problem = setting.problem
    M = smoother(*_kernels(problem), DirectOptimization())
    return {"gap": problem.test @ problem.start - np.asarray(M) @ problem.train @ problem.start}


def _eta_measure(setting: LinearModel, key) -> Measurement:
    problem, etas = setting.problem, setting.steps()
    direct = problem.test @ np.linalg.lstsq(problem.train, problem.y, rcond=None)[0]
    ends = linear.descend(problem, etas, (linear.steps_to_rounding(problem, etas),))[:, 0]
    return {"gap": exact(ends @ problem.test.T - direct)}


def _eta_compare(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Checks:
    gap, allowed = measured["gap"].value, linear.rounding(setting.problem, setting.steps())
    return [
        absolute_error("end of descent minus direct solution", predicted["gap"], gap, allowed),
        absolute_error("spread over step sizes", 0.0, np.ptp(gap, axis=0), allowed),
    ]


def _contracted_wrongly(setting: LinearModel, value: np.ndarray) -> np.ndarray:
    """The index clash of the notes: the inverse kernel summed over its free index."""
    features, tests, y, _ = setting.problem
    return tests @ features.T @ (np.linalg.inv(features @ features.T).sum(axis=0) * y)


def _infinitesimal_steps(setting: LinearModel, value: np.ndarray) -> np.ndarray:
    """Gradient flow in place of descent."""
    features, _, y, start = setting.problem
    decay = [[expm(-eta * t * features @ features.T) for t in setting.at] for eta in setting.steps()]
    return np.array(decay) @ (features @ start - y)


def _start_forgotten(setting: LinearModel, value: np.ndarray) -> np.ndarray:
    """The outputs that would follow from a start at zero."""
    return value - setting.problem.test @ setting.problem.start


_QUICK = LinearModel(points=6, features=14, at=(0, 1, 2, 4, 8, 16, 32, 64, 128, 256))
_FULL = LinearModel(points=20, features=60, at=(0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256))

_STEPS = Curves("at", "step", along=1)


CLAIMS = (
    Claim(
        id="lin-two-forms",
        title="least squares over features = kernel regression",
        statement="""With more features than points the least-squares solution predicts K_BA K_AA^-1 y, with
        the kernel K of scalar products of features.""",
        source=f"{_NOTES}, direct optimisation (its index contraction corrected)",
        quick=_QUICK,
        full=_FULL,
        theory=_two_forms_theory,
        measure=_two_forms_measure,
        compare=compare_each(
            {"output": "test outputs"}, absolute_error, lambda setting, _: linear.rounding(setting.problem)
        ),
        wrong={"output": _contracted_wrongly},
    ),
    Claim(
        id="lin-residual-propagator",
        title="each step multiplies the residual by 1 - eta K",
        statement="""Gradient descent on a linear model multiplies the training residual by the same matrix at
        every step: e(t) = (1 - eta K)^t e(0).""",
        source=f"{_NOTES}, gradient descent (the residual equation is the homogeneous one)",
        quick=_QUICK,
        full=_FULL,
        theory=_propagator_theory,
        measure=_propagator_measure,
        compare=compare_each({"residual": "training residual"}, absolute_error, _rounding),
        figure=_STEPS,
        wrong={"residual": _infinitesimal_steps},
    ),
    Claim(
        id="lin-test-solution-any-t",
        title="any point at any time, from any start",
        statement="""The output at any point is z_B(t) = z_B(0) - K_BA K_AA^-1 (1 - U(t)) (z_A(0) - y) after t
        steps, with U(t) = (1 - eta K_AA)^t, and without U at the end.""",
        source=f"{_NOTES}, gradient descent (the inverse kernel restored in its last line)",
        quick=_QUICK,
        full=_FULL,
        theory=_any_time_theory,
        measure=_any_time_measure,
        compare=compare_each(
            {"output": "test outputs", "end": "test outputs at the end"}, absolute_error, _rounding
        ),
        figure=_STEPS,
        wrong={"output": _start_forgotten, "end": _start_forgotten},
    ),
    Claim(
        id="lin-eta-independence",
        title="the step size leaves no trace, the start does",
        statement="""Every stable step size leads a linear model to the same predictions. They differ from the
        direct solution by z_B(0) - K_BA K_AA^-1 z_A(0): what the start has outside the training features is
        never unlearnt.""",
        source=f'{_NOTES} (its parenthesis "different eta yields different predictions" is false)',
        quick=_QUICK,
        full=_FULL,
        theory=_eta_theory,
        measure=_eta_measure,
        compare=_eta_compare,
        wrong={"gap": scaled(0.0)},
    ),
)
