"""How fast gradient descent converges on a linear model, and beyond which step it does not."""

from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.kernel_descent import Spectrum
from finitewidth.course._instruments import weight_descent as linear
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import DAY_2, orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.prediction.selection.certificates import convergence_certificate


@dataclass(frozen=True)
class Edge(RandomProblem):
    """Step sizes around 2 / lambda_max, as multiples of 1 / lambda_max, and how long to run."""

    steps: int
    edges: tuple[float, ...]

    @property
    def problem(self) -> linear.LinearProblem:
        """A random linear model."""
        return linear.random_problem(6, 14, 1, self.rng())

    def theory(self) -> Prediction:
        problem = self.problem
        kernel = jnp.asarray(problem.train @ problem.train.T)
        spectrum, certificate = Spectrum.of(kernel), convergence_certificate(kernel)
        start = spectrum.eigenvectors.T @ (problem.train @ problem.start - problem.y)
        steps = [GradientDescent(edge / certificate.largest, self.steps) for edge in self.edges]
        norms = [float(jnp.linalg.norm(spectrum.residual(step) * start)) for step in steps]
        return {"residual": np.array(norms), "largest step": np.array(certificate.largest_step)}

    def measure(self, key) -> Measurement:
        problem = self.problem
        top = linear.largest_curvature(problem)

        def norms(etas: np.ndarray) -> np.ndarray:
            weights = linear.descend(problem, etas, (self.steps // 2, self.steps))
            return np.linalg.norm(weights @ problem.train.T - problem.y, axis=-1)

        low, high = 1.5 / top, 2.5 / top
        for _ in range(5):
            grid = np.linspace(low, high, 21)
            halfway, end = norms(grid).T
            first = int(np.argmax(end > halfway))
            low, high = grid[first - 1], grid[first]
        return {
            "residual": exact(norms(np.array(self.edges) / top)[:, 1]),
            "largest step": exact((low + high) / 2),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        edge, found = predicted["largest step"], measured["largest step"].value
        stable = np.array([e for e in self.edges if e < 2]) / linear.largest_curvature(self.problem)
        residual = predicted["residual"]
        allowed = linear.rounding(self.problem, stable) / float(residual.min())
        return [
            relative_error("residual after the run", residual, measured["residual"], allowed),
            relative_error("largest stable step", edge, found, _edge_shift(self)),
        ]


def _edge_shift(setting: Edge) -> float:
    """How far the measured edge may be above 2 / lambda_max, relative to it.

    The norms at half time and at the end are compared. With a share c of the squared residual in the sharpest
    mode, which grows by e^u in this time, the other modes lose at most a quarter of theirs:
    c e^u (e^u - 1) <= (1 - c)/4. Growth by e^(u / steps) a step is off by half of it from no growth; and the
    last grid has a cell of 20^-5.
    """
    problem = setting.problem
    residual = problem.train @ problem.start - problem.y
    sharpest = np.linalg.svd(problem.train)[0][:, 0]
    share = (sharpest @ residual) ** 2 / (residual @ residual)
    u = np.log((1 + np.sqrt(1 / share)) / 2)
    return float(np.expm1(u / setting.steps) / 2 + 20.0**-5)


@dataclass(frozen=True)
class Rates:
    """A least-squares problem with a chosen spectrum; its two ends decide, so nothing is random."""

    steps: int
    etas: tuple[float, ...]
    eigenvalues: tuple[float, ...] = (0.5, 1.0, 4.0)

    def theory(self) -> Prediction:
        certificate = convergence_certificate(np.diag(self.eigenvalues))
        return {
            "factor": np.array([certificate.contraction(eta) for eta in self.etas]),
            "best": np.array([certificate.best_step, certificate.contraction(certificate.best_step)]),
        }

    def measure(self, key) -> Measurement:
        n = len(self.eigenvalues)
        # Labels of zero: the residual can shrink by hundreds of decades without meeting rounding.
        problem = linear.LinearProblem(np.diag(np.sqrt(self.eigenvalues)), np.eye(n), np.zeros(n), np.ones(n))

        def factors(etas: np.ndarray) -> np.ndarray:
            weights = linear.descend(problem, etas, (self.steps - 2, self.steps))
            before, after = np.linalg.norm(weights @ problem.train.T, axis=-1).T
            return np.sqrt(after / before)

        grid = np.linspace(0.3, 0.495, 1951)
        on_grid = factors(grid)
        best = int(np.argmin(on_grid))
        return {
            "factor": exact(factors(np.array(self.etas))),
            "best": exact(np.array([grid[best], on_grid[best]])),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            relative_error("contraction per step", predicted["factor"], measured["factor"], 1e-6),
            absolute_error("best step and its factor", predicted["best"], measured["best"], 1e-3),
        ]


def _slowest_mode_alone(setting: Rates, value: np.ndarray) -> np.ndarray:
    """1 - eta lambda_min at any step, as the notes print."""
    return 1 - np.array(setting.etas) * min(setting.eigenvalues)


CLAIMS = (
    Claim(
        id="lin-stability-edge",
        title="stable below eta = 2 / lambda_max",
        statement="Gradient descent on a linear model converges if and only if eta lambda_max(K) < 2.",
        source=f"{DAY_2} (the condition was left out)",
        quick=Edge(steps=60, edges=(1.8, 1.85, 1.9, 1.95, 2.05, 2.1, 2.15)),
        full=Edge(steps=200, edges=(1.94, 1.955, 1.97, 1.985, 2.015, 2.03, 2.045, 2.06)),
        figure=Curves("edges", r"$\eta\,\lambda_{max}$"),
        wrong={"residual": scaled(1 + 1e-6), "largest step": scaled(1.05)},
    ),
    Claim(
        id="gd-linear-rate",
        title="contraction by the largest |1 - eta lambda|",
        statement="""Each step contracts the error by max(|1 - eta lambda_min|, |1 - eta lambda_max|); the
        best step is 2/(lambda_max + lambda_min), with factor (kappa - 1)/(kappa + 1), where kappa =
        lambda_max/lambda_min.""",
        source=orf_543("7") + " (1 - eta lambda_min holds up to the best step only)",
        quick=Rates(steps=800, etas=(0.05, 0.1, 0.2, 0.3, 0.4, 0.47, 0.49)),
        full=Rates(steps=1200, etas=tuple(np.linspace(0.03, 0.495, 24).round(4).tolist())),
        figure=Curves("etas", r"step $\eta$"),
        deterministic=True,
        wrong={"factor": _slowest_mode_alone, "best": scaled(0.5)},
    ),
)
