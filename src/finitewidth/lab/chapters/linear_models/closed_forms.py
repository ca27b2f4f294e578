"""Linear models: kernel regression, the residual under gradient descent, and its end."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from finitewidth.dynamics.algorithms import DirectOptimization, GradientDescent
from finitewidth.dynamics.kernel_descent import Spectrum, smoother
from finitewidth.dynamics.ridge import ridge_regression
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import absolute_error
from finitewidth.lab.framework.estimate import exact
from finitewidth.lab.framework.random_problem import RandomProblem, drawn
from finitewidth.lab.framework.sources import DAY_2
from finitewidth.lab.instruments.weight_descent import (
    LinearProblem,
    descend,
    largest_curvature,
    random_problem,
    rounding,
    steps_to_rounding,
)
from finitewidth.report import style

_CHAPTER = "Linear models"
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
    def problem(self) -> LinearProblem:
        """The same data for prediction and measurement."""
        return random_problem(self.points, self.features, self.tests, self.rng())

    def steps(self) -> Float[np.ndarray, " etas"]:
        """The step sizes."""
        return np.array(self.edges) / largest_curvature(self.problem)


def _kernels(problem: LinearProblem) -> tuple[Float[Array, "train train"], Float[Array, "test train"]]:
    return jnp.asarray(problem.train @ problem.train.T), jnp.asarray(problem.test @ problem.train.T)


def _two_forms_theory(setting: LinearModel) -> Prediction:
    kernel, reach = _kernels(setting.problem)
    return {"output": ridge_regression(kernel, setting.problem.y[:, None]).predict(reach)[:, 0]}


def _two_forms_measure(setting: LinearModel, key) -> Measurement:
    problem = setting.problem
    weights = np.linalg.lstsq(problem.train, problem.y, rcond=None)[0]
    return {"output": exact(problem.test @ weights)}


def _two_forms_compare(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Verdict:
    allowed = rounding(setting.problem)
    return Verdict((absolute_error("test outputs", predicted["output"], measured["output"].value, allowed),))


def _two_forms_figure(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Least squares over features is regression with a kernel")
    points = np.arange(setting.tests) + 1
    axes.hlines(predicted["output"], points - 0.35, points + 0.35, color=style.PALETTE[0], lw=1.7)
    value, sem = measured["output"]
    style.measured_points(axes, points, value, sem, style.PALETTE[1])
    axes.set(xlabel="test point", ylabel="prediction")
    style.whole_ticks(axes.xaxis)
    style.legend(
        axes, "least squares on the weights", "kernel regression", error_bars=False,
        color=style.PALETTE[0], point_color=style.PALETTE[1],
    )  # fmt: skip
    return figure


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
    weights = descend(problem, setting.steps(), setting.at)
    return {"residual": exact(weights @ problem.train.T - problem.y)}


def _propagator_compare(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Verdict:
    allowed = rounding(setting.problem, setting.steps())
    return Verdict(
        (absolute_error("training residual", predicted["residual"], measured["residual"].value, allowed),)
    )


def _propagator_figure(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("One constant matrix per step: the residual of a linear model")
    norms = (np.linalg.norm(r, axis=-1) for r in (predicted["residual"], measured["residual"].value))
    for edge, color, line, dots in zip(setting.edges, style.PALETTE, *norms, strict=False):
        style.theory_line(axes, setting.at, line, color, rf"$\eta\lambda_{{max}}={edge:g}$")
        style.measured_points(axes, setting.at, dots, 0 * dots, color)
    axes.set(yscale="log", ylim=(1e-15, None), xlabel="step", ylabel="norm of the residual")
    style.legend(axes, "steps on the weights", r"$(1-\eta K)^t$", error_bars=False, loc="lower left")
    return figure


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
    weights = descend(problem, setting.steps(), setting.at)
    first = setting.steps()[:1]
    long = descend(problem, first, (steps_to_rounding(problem, first),))
    return {"output": exact(weights @ problem.test.T), "end": exact(problem.test @ long[0, 0])}


def _any_time_compare(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Verdict:
    allowed = rounding(setting.problem, setting.steps())
    return Verdict(
        (
            absolute_error("test outputs", predicted["output"], measured["output"].value, allowed),
            absolute_error("test outputs at the end", predicted["end"], measured["end"].value, allowed),
        )
    )


def _any_time_figure(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Test outputs of a linear model at any time")
    value = measured["output"].value[0]
    for i, color in zip(range(setting.tests), style.PALETTE, strict=False):
        style.theory_line(axes, setting.at, predicted["output"][0, :, i], color, f"test point {i + 1}")
        style.measured_points(axes, setting.at, value[:, i], 0 * value[:, i], color)
        axes.axhline(predicted["end"][i], color=color, lw=0.9, ls=":")
    axes.set(xscale="symlog", xlim=(-0.3, None), xlabel="step", ylabel="output")
    style.legend(axes, "steps on the weights", "closed form (dotted: its end)", error_bars=False, fontsize=8)
    return figure


def _eta_theory(setting: LinearModel) -> Prediction:
    problem = setting.problem
    M = smoother(*_kernels(problem), DirectOptimization())
    return {"gap": problem.test @ problem.start - np.asarray(M) @ problem.train @ problem.start}


def _eta_measure(setting: LinearModel, key) -> Measurement:
    problem = setting.problem
    direct = problem.test @ np.linalg.lstsq(problem.train, problem.y, rcond=None)[0]
    ends = descend(problem, setting.steps(), (steps_to_rounding(problem, setting.steps()),))[:, 0]
    return {"gap": exact(ends @ problem.test.T - direct)}


def _eta_compare(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Verdict:
    gap, allowed = measured["gap"].value, rounding(setting.problem, setting.steps())
    return Verdict(
        (
            absolute_error("end of descent minus direct solution", predicted["gap"], gap, allowed),
            absolute_error("spread over step sizes", 0.0, np.ptp(gap, axis=0), allowed),
        )
    )


def _eta_figure(setting: LinearModel, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("The end depends on the start, not on the step")
    points = np.arange(setting.tests) + 1
    axes.hlines(predicted["gap"], points - 0.35, points + 0.35, color=style.GREY, lw=1.7)
    for i, (edge, color) in enumerate(zip(setting.edges, style.PALETTE, strict=False)):
        gap = measured["gap"].value[i]
        label = rf"$\eta\lambda_{{max}}={edge:g}$"
        style.measured_points(axes, points + 0.15 * (i - 1), gap, 0 * gap, color, label)
    axes.axhline(0, color=style.GREY, lw=0.8, ls=":")
    axes.set(xlabel="test point", ylabel="end of descent minus direct solution")
    style.whole_ticks(axes.xaxis)
    style.legend(axes, "steps on the weights", r"$z(0)-K_{BA}K_{AA}^{-1}z_A(0)$", error_bars=False)
    return figure


_QUICK = LinearModel(points=6, features=14, at=(0, 1, 2, 4, 8, 16, 32, 64, 128, 256))
_FULL = LinearModel(points=20, features=60, at=(0, 1, 2, 4, 8, 16, 32, 64, 96, 128, 160, 192, 224, 256))

CLAIMS = (
    Claim(
        id="lin-two-forms",
        title="least squares over features = kernel regression",
        chapter=_CHAPTER,
        statement=(
            "With more features than points the least-squares solution predicts K_BA K_AA^-1 y, with the "
            "kernel K of scalar products of features."
        ),
        source=f"{_NOTES}, direct optimisation (its index contraction corrected)",
        quick=_QUICK,
        full=_FULL,
        theory=_two_forms_theory,
        measure=_two_forms_measure,
        compare=_two_forms_compare,
        figure=_two_forms_figure,
        draw=drawn,
    ),
    Claim(
        id="lin-residual-propagator",
        title="each step multiplies the residual by 1 - eta K",
        chapter=_CHAPTER,
        statement=(
            "Gradient descent on a linear model multiplies the training residual by the same matrix at "
            "every step: e(t) = (1 - eta K)^t e(0)."
        ),
        source=f"{_NOTES}, gradient descent (the residual equation is the homogeneous one)",
        quick=_QUICK,
        full=_FULL,
        theory=_propagator_theory,
        measure=_propagator_measure,
        compare=_propagator_compare,
        figure=_propagator_figure,
        draw=drawn,
    ),
    Claim(
        id="lin-test-solution-any-t",
        title="any point at any time, from any start",
        chapter=_CHAPTER,
        statement=(
            "The output at any point is z_B(t) = z_B(0) - K_BA K_AA^-1 (1 - U(t)) (z_A(0) - y) after t "
            "steps, with U(t) = (1 - eta K_AA)^t, and without U at the end."
        ),
        source=f"{_NOTES}, gradient descent (the inverse kernel restored in its last line)",
        quick=_QUICK,
        full=_FULL,
        theory=_any_time_theory,
        measure=_any_time_measure,
        compare=_any_time_compare,
        figure=_any_time_figure,
        draw=drawn,
    ),
    Claim(
        id="lin-eta-independence",
        title="the step size leaves no trace, the start does",
        chapter=_CHAPTER,
        statement=(
            "Every stable step size leads a linear model to the same predictions. They differ from the "
            "direct solution by z_B(0) - K_BA K_AA^-1 z_A(0): what the start has outside the training "
            "features is never unlearnt."
        ),
        source=f'{_NOTES} (its parenthesis "different eta yields different predictions" is false)',
        quick=_QUICK,
        full=_FULL,
        theory=_eta_theory,
        measure=_eta_measure,
        compare=_eta_compare,
        figure=_eta_figure,
        draw=drawn,
    ),
)
