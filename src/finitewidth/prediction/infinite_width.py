r"""The trained distribution of infinitely wide networks.

At initialisation the outputs are Gaussian with covariance K. Training is linear in the initial outputs,
$z_B = z_B(0) + M\,(y - z_A(0))$, so the trained outputs are Gaussian too, with mean $M y$ and covariance
$K_{BB} - M K_{AB} - K_{BA} M^T + M K_{AA} M^T$.
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.dynamics.kernel_descent import (
    Spectrum,
    extreme_eigenvalues,
    interpolator,
    nearly_equal_pair,
)
from finitewidth.prediction.data import as_targets
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.statistics.inputs import ArrayLike, as_inputs
from finitewidth.statistics.kernels import Kernels, kernels


class TrainingProblem(NamedTuple):
    """A network and its data, with all kernels that a prediction needs."""

    net: MLP
    y: Float[Array, "train out"]
    train: Kernels
    test_train: Kernels
    test: Kernels

    @classmethod
    def of(cls, net: MLP, x_train: ArrayLike, y_train: ArrayLike, x_test: ArrayLike) -> "TrainingProblem":
        """Check the data and compute the kernels."""
        x_train = as_inputs("x_train", x_train, net)
        x_test = as_inputs("x_test", x_test, net).astype(x_train.dtype)
        if x_train.shape[1] != x_test.shape[1]:
            raise ValueError(
                f"x_train has {x_train.shape[1]} features and x_test has {x_test.shape[1]}; they must agree."
            )
        y = as_targets(y_train, len(x_train), x_train.dtype)
        return cls(net, y, kernels(net, x_train), kernels(net, x_test, x_train), kernels(net, x_test))


def smoother(problem: TrainingProblem, algorithm: SpectralAlgorithm, ridge: float = 0.0) -> Float[Array, "test train"]:
    """M(t) on the test points, with the algorithm's open choices made from the spectrum."""
    theta = problem.train.ntk + ridge * jnp.eye(len(problem.y), dtype=problem.train.ntk.dtype)
    smallest, largest = extreme_eigenvalues(theta)
    algorithm = algorithm.resolved(largest)
    if not algorithm.converged:
        return Spectrum.of(theta).smoother(algorithm, problem.test_train.ntk)
    _refuse_singular(theta, smallest, largest)
    return interpolator(theta, problem.test_train.ntk)


def trained_distribution(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    *,
    initial: tuple[Array, Array] | None = None,
    ridge: float = 0.0,
) -> TrainedDistribution:
    """Mean and covariance of the trained outputs.

    `initial` holds the outputs (train, test) of a given starting function; without it the start is
    random, with zero mean and covariance K.
    """
    M = smoother(problem, algorithm, ridge)
    if initial is not None:
        at_train, at_test = (jnp.asarray(f).reshape(-1, problem.y.shape[1]) for f in initial)
        mean = at_test + M @ (problem.y - at_train)
        return TrainedDistribution(mean, jnp.zeros_like(problem.test.nngp))
    K_BA_MT = problem.test_train.nngp @ M.T
    covariance = problem.test.nngp - K_BA_MT - K_BA_MT.T + M @ problem.train.nngp @ M.T
    return TrainedDistribution(M @ problem.y, (covariance + covariance.T) / 2)


def _refuse_singular(theta: Float[Array, "train train"], smallest: float, largest: float) -> None:
    eps = float(jnp.finfo(theta.dtype).eps)
    if smallest > len(theta) * eps * largest:
        return
    pair = nearly_equal_pair(theta)
    who = f"training points {pair[0]} and {pair[1]} are the same to it" if pair else "no two points coincide"
    raise ValueError(
        f"the training NTK is singular (eigenvalues {smallest:.3g} to {largest:.3g}; {who}): training to the end "
        "has no unique answer. Remove duplicates, stop after finitely many steps, or pass ridge > 0, "
        f"say ridge={1e-6 * largest:.1g}."
    )
