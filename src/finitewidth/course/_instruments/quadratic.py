"""Random quadratic models, and what real training makes of them."""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.models.taylor_models import QuadraticModel
from finitewidth.networks.training.weight_space import train_weights


class Problem(NamedTuple):
    """Features of training and test points, training points first, and labels of both."""

    phi: Float[np.ndarray, "points features"]
    psi: Float[np.ndarray, "points features features"]
    y: Float[np.ndarray, "train 1"]
    y_test: Float[np.ndarray, "test 1"]

    @property
    def train(self) -> np.ndarray:
        return np.arange(len(self.y))

    @property
    def test(self) -> np.ndarray:
        return np.arange(len(self.y), len(self.phi))

    @property
    def everywhere(self) -> np.ndarray:
        return np.arange(len(self.phi))

    @property
    def k(self) -> Float[np.ndarray, "points points"]:
        """The kernel of all points."""
        return self.phi @ self.phi.T

    def mu(self, epsilon: float = 1.0) -> Float[np.ndarray, "points points points"]:
        """The meta kernel of all points."""
        return epsilon * np.einsum("bj,ajk,ck->abc", self.phi, self.psi, self.phi, optimize=True)

    def parts(
        self, epsilon: float = 1.0
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Kernels and meta kernels as a nearly-kernel prediction at all points asks for them."""
        n, k, mu = len(self.y), self.k, self.mu(epsilon)
        return k[:n, :n], k[:, :n], mu[:n, :n, :n], mu[:, :n, :n], mu[:n, :, :n]

    def model(self, epsilon: float) -> QuadraticModel:
        """The model; its inputs are the numbers of the points."""
        return QuadraticModel(lambda i: self.phi[i], lambda i: self.psi[i], epsilon)

    @property
    def condition(self) -> float:
        """Condition number of the kernel of the training points."""
        return float(np.linalg.cond(self.k[: len(self.y), : len(self.y)]))

    @property
    def rounding(self) -> float:
        """Error of outputs of fitted weights: sums over features, divided by the training points' kernel."""
        size = np.linalg.norm(fitted_weights(self.phi, self.y))
        return float(self.phi.shape[1] * np.finfo(float).eps * self.condition * size)

    def step(self, edge: float) -> float:
        """The learning rate at a multiple of 1 / lambda_max."""
        n = len(self.y)
        return float(edge / np.linalg.eigvalsh(self.k[:n, :n])[-1])

    def descent(self, edge: float) -> GradientDescent:
        """Gradient descent at a multiple of 1 / lambda_max, run to the end."""
        return GradientDescent(self.step(edge))


def draw(rng: np.random.Generator, train: int = 6, test: int = 5, features: int = 14) -> Problem:
    """Gaussian features of unit size in all, and Gaussian symmetric meta features.

    How far a series in epsilon reaches depends on the draw: fitted weights w bend the training features by
    epsilon psi w, and the series is one in this change over the smallest singular value of the features.
    Meta features are in units in which that ratio is at most epsilon.
    """
    phi = rng.normal(size=(train + test, features)) / np.sqrt(features)
    psi = rng.normal(size=(train + test, features, features))
    psi = psi + np.swapaxes(psi, 1, 2)
    y, y_test = rng.normal(size=(train, 1)), rng.normal(size=(test, 1))
    bend = np.linalg.norm(psi[:train].reshape(-1, features), 2) * np.linalg.norm(fitted_weights(phi, y))
    return Problem(phi, psi * np.linalg.norm(phi[:train], -2) / bend, y, y_test)


def fitted_weights(phi: Float[np.ndarray, "points features"], y: Float[np.ndarray, "train 1"]) -> np.ndarray:
    """The shortest weights with which a linear model reaches the labels."""
    return np.linalg.lstsq(phi[: len(y)], y[:, 0], rcond=None)[0]


def random_weights(
    problem: Problem, rng: np.random.Generator, count: int
) -> Float[np.ndarray, "count 1 features"]:
    """Gaussian weights of the size of fitted ones."""
    weights = rng.normal(size=(count, 1, problem.phi.shape[1])) / np.sqrt(problem.phi.shape[1])
    return weights * np.linalg.norm(fitted_weights(problem.phi, problem.y))


def direct_solvers(steps: tuple[float, ...]) -> list[DirectOptimization]:
    """Newton's method in the row space, Gauss-Newton with each step, and the shortest weights."""
    damped = [DirectOptimization("gauss-newton", step) for step in steps]
    return [DirectOptimization(), *damped, DirectOptimization("minimum-norm")]


def trained_weights(
    problem: Problem, epsilon: float, algorithm: SpectralAlgorithm, start: np.ndarray | None = None
) -> Float[Array, "1 features"]:
    """Weights at the end of training without any expansion."""
    weights = jnp.zeros((1, problem.phi.shape[1])) if start is None else jnp.asarray(start)
    return train_weights(problem.model(epsilon).at(problem.train), problem.y, algorithm, weights).weights


def trained_outputs(
    problem: Problem, epsilon: float, algorithm: SpectralAlgorithm, start: np.ndarray | None = None
) -> Float[np.ndarray, "points 1"]:
    """Outputs of the trained model at all points."""
    weights = trained_weights(problem, epsilon, algorithm, start)
    return np.asarray(problem.model(epsilon)(weights, problem.everywhere))


def step_weights(
    problem: Problem, epsilon: float, weights: np.ndarray, eta: float
) -> tuple[Float[np.ndarray, "1 features"], Float[np.ndarray, "train 1"]]:
    """One step of gradient descent written out, and the residual before it."""
    n = len(problem.y)
    phi, psi = problem.phi[:n], problem.psi[:n]
    features = phi + epsilon * psi @ weights[0]
    e = (phi @ weights[0] + epsilon / 2 * (psi @ weights[0]) @ weights[0])[:, None] - problem.y
    return weights - eta * (e.T @ features), e
