"""Ridge regression over weights and over kernels is one problem."""

from dataclasses import dataclass

import numpy as np

from finitewidth.course._instruments.weight_descent import LinearProblem, random_problem, rounding
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.kernel_regression.theory.ridge import ridge_regression


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

    def theory(self) -> Prediction:
        train, test, y, _ = self.problem
        fits = [ridge_regression(train @ train.T, y[:, None], ridge) for ridge in self.ridges]
        return {
            "fitted": np.array([fit.fitted[:, 0] for fit in fits]),
            "predicted": np.array([fit.predict(test @ train.T)[:, 0] for fit in fits]),
            "squared norm": np.array([fit.norm_squared[0] for fit in fits]),
            "beyond the span": np.zeros(len(fits)),
        }

    def measure(self, key) -> Measurement:
        train, test, y, _ = self.problem
        weights = np.array([_penalised(train, y, ridge) for ridge in self.ridges])
        onto_span = train.T @ np.linalg.pinv(train.T)
        return {
            "fitted": exact(weights @ train.T),
            "predicted": exact(weights @ test.T),
            "squared norm": exact(np.sum(weights**2, axis=1)),
            "beyond the span": exact(np.linalg.norm(weights - weights @ onto_span, axis=1)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # A penalty only improves the condition.
        allowed = rounding(self.problem)
        norms, beyond = measured["squared norm"].value, measured["beyond the span"].value
        return [
            absolute_error("fitted values", predicted["fitted"], measured["fitted"], allowed),
            absolute_error("test outputs", predicted["predicted"], measured["predicted"], allowed),
            relative_error("squared norm", predicted["squared norm"], norms, allowed),
            absolute_error(
                "part of the weights beyond the features", predicted["beyond the span"], beyond, allowed
            ),
        ]


def _penalised(train: np.ndarray, y: np.ndarray, ridge: float) -> np.ndarray:
    """Least squares over the weights, with one more equation per weight that asks it to be zero."""
    features = train.shape[1]
    rows = np.concatenate([train, np.sqrt(ridge) * np.eye(features)])
    return np.linalg.lstsq(rows, np.concatenate([y, np.zeros(features)]), rcond=None)[0]


def _norm_of_coefficients(setting: Ridges, value: np.ndarray) -> np.ndarray:
    """a^T a in place of a^T K a."""
    features, _, y, _ = setting.problem
    K = features @ features.T
    return np.array([np.sum(np.linalg.solve(K + r * np.eye(len(y)), y) ** 2) for r in setting.ridges])


def _without_penalty(setting: Ridges, value: np.ndarray) -> np.ndarray:
    features, tests, y, _ = setting.problem
    return np.tile(tests @ np.linalg.lstsq(features, y, rcond=None)[0], (len(setting.ridges), 1))


CLAIMS = (
    Claim(
        id="representer-ridge-duality",
        title="ridge regression over weights = over kernels",
        statement="""The weights that minimise |Phi theta - y|^2 + r |theta|^2 are a combination of the
        training features, with coefficients a = (K + r)^-1 y; fitted values are K a and |theta|^2 = a^T K
        a.""",
        source=orf_543("10/31") + ", representer theorem",
        quick=Ridges(points=8, features=20, ridges=(0.01, 0.1, 1.0, 10.0)),
        full=Ridges(points=20, features=60, ridges=tuple(np.geomspace(1e-3, 30, 16).tolist())),
        figure=Curves("ridges", r"ridge $r$", along=0),
        wrong={
            "squared norm": _norm_of_coefficients,
            "predicted": _without_penalty,
            "fitted": scaled(1 + 1e-6),
        },
    ),
)
