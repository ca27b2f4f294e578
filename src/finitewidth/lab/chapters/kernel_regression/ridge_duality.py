"""Ridge regression over weights and over kernels is one problem."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from finitewidth.dynamics.ridge import ridge_regression
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import absolute_error, relative_error
from finitewidth.lab.framework.estimate import exact
from finitewidth.lab.framework.random_problem import RandomProblem, drawn
from finitewidth.lab.framework.sources import orf_543
from finitewidth.lab.instruments.weight_descent import LinearProblem, random_problem, rounding
from finitewidth.report import style

_NAMES = ("fitted", "predicted", "squared norm")


@dataclass(frozen=True)
class Ridges(RandomProblem):
    """A random linear model and penalties on its weights."""

    points: int
    features: int
    ridges: tuple[float, ...]
    tests: int = 5

    @property
    def problem(self) -> LinearProblem:
        """The same data for prediction and measurement."""
        return random_problem(self.points, self.features, self.tests, self.rng())


def _theory(setting: Ridges) -> Prediction:
    train, test, y, _ = setting.problem
    fits = [ridge_regression(train @ train.T, y[:, None], ridge) for ridge in setting.ridges]
    return {
        "fitted": np.array([fit.fitted[:, 0] for fit in fits]),
        "predicted": np.array([fit.predict(test @ train.T)[:, 0] for fit in fits]),
        "squared norm": np.array([fit.norm_squared[0] for fit in fits]),
        "beyond the span": np.zeros(len(fits)),
    }


def _measure(setting: Ridges, key) -> Measurement:
    train, test, y, _ = setting.problem
    weights = np.array([_penalised(train, y, ridge) for ridge in setting.ridges])
    onto_span = train.T @ np.linalg.pinv(train.T)
    return {
        "fitted": exact(weights @ train.T),
        "predicted": exact(weights @ test.T),
        "squared norm": exact(np.sum(weights**2, axis=1)),
        "beyond the span": exact(np.linalg.norm(weights - weights @ onto_span, axis=1)),
    }


def _penalised(train: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Least squares over the weights, with one more equation per weight that asks it to be zero."""
    features = train.shape[1]
    rows = np.concatenate([train, np.sqrt(ridge) * np.eye(features)])
    return np.linalg.lstsq(rows, np.concatenate([y, np.zeros(features)]), rcond=None)[0]


def _compare(setting: Ridges, predicted: Prediction, measured: Measurement) -> Verdict:
    # A penalty only improves the condition.
    allowed = rounding(setting.problem)
    norms, beyond = measured["squared norm"].value, measured["beyond the span"].value
    return Verdict(
        (
            absolute_error("fitted values", predicted["fitted"], measured["fitted"].value, allowed),
            absolute_error("test outputs", predicted["predicted"], measured["predicted"].value, allowed),
            relative_error("squared norm", predicted["squared norm"], norms, allowed),
            absolute_error(
                "part of the weights beyond the features", predicted["beyond the span"], beyond, allowed
            ),
        )
    )


def _figure(setting: Ridges, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (left, right) = style.panels("Ridge regression over weights and over kernels is one", count=2)
    y = setting.problem.y
    style.theory_line(left, setting.ridges, predicted["squared norm"], style.PALETTE[0], r"$a^TKa$")
    norms = measured["squared norm"].value
    style.measured_points(left, setting.ridges, norms, 0 * norms, style.PALETTE[0], r"$|\theta|^2$")
    errors = [np.sum((side - y) ** 2, axis=1) for side in (predicted["fitted"], measured["fitted"].value)]
    style.theory_line(left, setting.ridges, errors[0], style.PALETTE[1], r"$|K(K+r)^{-1}y-y|^2$")
    style.measured_points(left, setting.ridges, errors[1], 0 * norms, style.PALETTE[1], r"$|\Phi\theta-y|^2$")
    left.set(xscale="log", yscale="log", xlabel=r"ridge $r$", title="norm and training error")
    left.legend(title="lines: kernel, points: weights", alignment="left")
    for i, color in zip(range(setting.tests), style.PALETTE, strict=False):
        style.theory_line(right, setting.ridges, predicted["predicted"][:, i], color, f"test point {i + 1}")
        value = measured["predicted"].value[:, i]
        style.measured_points(right, setting.ridges, value, 0 * value, color)
    right.set(xscale="log", xlabel=r"ridge $r$", ylabel="prediction", title="test outputs")
    right.legend()
    return figure


CLAIMS = (
    Claim(
        id="representer-ridge-duality",
        title="ridge regression over weights = over kernels",
        chapter="Kernel regression",
        statement=(
            "The weights that minimise |Phi theta - y|^2 + r |theta|^2 are a combination of the training "
            "features, with coefficients a = (K + r)^-1 y; fitted values are K a and |theta|^2 = a^T K a."
        ),
        source=orf_543("10/31") + ", representer theorem",
        quick=Ridges(points=8, features=20, ridges=(0.01, 0.1, 1.0, 10.0)),
        full=Ridges(points=20, features=60, ridges=tuple(np.geomspace(1e-3, 30, 16).tolist())),
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
        draw=drawn,
    ),
)
