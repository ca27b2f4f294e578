"""Where gradient descent ends, and how fast it gets there on a fixed positive definite kernel."""

from dataclasses import dataclass

import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.course._instruments import weight_descent as linear
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import IEMS_402, orf_543
from finitewidth.course._lab.wrong import power, scaled
from finitewidth.course.kernel_regression.theory.ridge import ridge_regression
from finitewidth.prediction.selection.certificates import convergence_certificate
from finitewidth.statistics.wide.kernels import kernels


@dataclass(frozen=True)
class FewEquations(RandomProblem):
    """More unknowns than equations."""

    points: int
    features: int

    @property
    def problem(self) -> linear.LinearProblem:
        """A random linear model."""
        return linear.random_problem(self.points, self.features, 1, self.rng())

    def theory(self) -> Prediction:
        problem = self.problem
        kernel = problem.train @ problem.train.T
        from_zero = ridge_regression(kernel, problem.y[:, None]).coefficients
        correction = ridge_regression(
            kernel, (problem.y - problem.train @ problem.start)[:, None]
        ).coefficients
        return {
            "from zero": problem.train.T @ from_zero[:, 0],
            "from the start": problem.start + problem.train.T @ correction[:, 0],
        }

    def measure(self, key) -> Measurement:
        problem = self.problem
        etas = np.array([1 / linear.largest_curvature(problem)])
        steps = (linear.steps_to_rounding(problem, etas),)
        shortest = np.linalg.lstsq(problem.train, problem.y, rcond=None)[0]
        return {
            "from zero": exact(linear.descend(problem, etas, steps, np.zeros(self.features))[0, 0]),
            "from the start": exact(linear.descend(problem, etas, steps)[0, 0]),
            "least norm": exact(shortest),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        zero, start, allowed = (
            predicted["from zero"],
            predicted["from the start"],
            linear.rounding(self.problem),
        )
        return [
            absolute_error("weights from zero", zero, measured["from zero"], allowed),
            absolute_error("weights from a random start", start, measured["from the start"], allowed),
            absolute_error("interpolator of least norm", zero, measured["least norm"], allowed),
        ]


@dataclass(frozen=True)
class FixedKernel(RandomProblem):
    """The NTK of a wide network on random inputs, and how long to descend."""

    points: int
    steps: int
    fraction: float = 0.9

    @property
    def inputs(self) -> np.ndarray:
        """Random inputs."""
        return self.rng(0).normal(size=(self.points, 3))

    @property
    def network(self) -> Layer:
        """A network whose kernel stays fixed: infinitely wide."""
        return equal_layers(1, 2, "relu", 0.1, 2.0)

    def theory(self) -> Prediction:
        kernel = kernels(self.network, self.inputs).ntk
        certificate = convergence_certificate(kernel)
        factor = certificate.contraction(self.fraction / certificate.largest)
        bound = factor ** (2.0 * np.arange(self.steps + 1))
        return {"bound": bound, "kernel": np.asarray(kernel)}

    def measure(self, key) -> Measurement:
        kernel = _kernel_by_quadrature(self)
        values, vectors = np.linalg.eigh(kernel)
        eta = self.fraction / values[-1]
        starts = self.rng(1).normal(size=(self.points, 20))
        starts = np.concatenate([vectors[:, :1], starts / np.linalg.norm(starts, axis=0)], axis=1)
        losses = [np.ones(21)]
        residual = starts
        for _ in range(self.steps):
            residual = residual - eta * kernel @ residual
            losses.append(np.sum(residual**2, axis=0))
        return {"loss": exact(np.array(losses).T), "kernel": exact(kernel)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        loss = measured["loss"].value
        bound = predicted["bound"]
        return [
            relative_error("kernel by direct integration", predicted["kernel"], measured["kernel"], 1e-10),
            upper_bound("loss from 20 random starts", bound, loss[1:]),
            relative_error("loss from the slowest mode", bound, loss[0], 1e-6),
        ]


def _kernel_by_quadrature(setting: FixedKernel) -> np.ndarray:
    """The NTK by summing over directions of two preactivations, layer by layer."""
    x = setting.inputs
    K = 0.1 + 2.0 * x @ x.T / x.shape[1]
    theta = 1.0 + x @ x.T / x.shape[1]
    for _ in range(2):
        scale = np.sqrt(np.outer(np.diag(K), np.diag(K)))
        angle = np.arccos(np.clip(K / scale, -1, 1))
        np.fill_diagonal(angle, 0.0)
        node, weight = np.polynomial.legendre.leggauss(40)
        # Both preactivations are positive for directions between angle - pi/2 and pi/2.
        half = (np.pi - angle) / 2
        t = (angle[..., None] + half[..., None] * 2 * node) / 2
        both = np.cos(t) * np.cos(t - angle[..., None])
        value = scale * half * np.sum(weight * both, axis=-1) / np.pi
        slope = half / np.pi
        theta = 1.0 + value + 2.0 * slope * theta
        K = 0.1 + 2.0 * value
    return theta


def _shortest_from_anywhere(setting: FewEquations, value: np.ndarray) -> np.ndarray:
    """The interpolator of least norm, without a condition on the start."""
    return np.linalg.lstsq(setting.problem.train, setting.problem.y, rcond=None)[0]


CLAIMS = (
    Claim(
        id="gd-min-norm",
        title="descent from zero: the interpolator of least norm",
        statement="""With fewer equations than unknowns descent ends at w(0) + A^T (A A^T)^-1 (y - A w(0)):
        the interpolator of least norm if w(0) = 0, and not otherwise.""",
        source=f"{IEMS_402} (the condition on the start was left out)",
        quick=FewEquations(points=5, features=12),
        full=FewEquations(points=10, features=30),
        wrong={"from zero": scaled(1 + 1e-6), "from the start": _shortest_from_anywhere},
    ),
    Claim(
        id="pd-kernel-linear-convergence",
        title="positive definite kernel: geometric convergence",
        statement="""On a fixed kernel with eigenvalues at least lambda_0, and eta at most 1 / lambda_max,
        the loss after t steps is at most (1 - eta lambda_0)^(2t) times its start; the slowest mode
        reaches it.""",
        source=orf_543("10/10") + " (with the number of steps in the exponent)",
        quick=FixedKernel(points=6, steps=200),
        full=FixedKernel(points=40, steps=3000),
        figure=Curves(lambda setting: np.arange(setting.steps + 1), "step"),
        wrong={"bound": power(1.01), "kernel": scaled(1 + 1e-6)},
    ),
)
