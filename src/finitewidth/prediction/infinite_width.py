r"""The trained distribution of infinitely wide networks.

At initialisation the outputs are Gaussian with covariance K. Training is linear in the initial outputs,
$z_B = z_B(0) + M\,(y - z_A(0))$, so the trained outputs are Gaussian too, with mean $M y$ and covariance
$K_{BB} - M K_{AB} - K_{BA} M^T + M K_{AA} M^T$.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.dynamics.kernel_descent import smoother
from finitewidth.linalg.cholesky import SingularKernelError, suggested_ridge, symmetric_product
from finitewidth.prediction.data import Start, as_targets, first_duplicate, starting_outputs, warn_of_few_rows
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.statistics.inputs import ArrayLike, as_inputs
from finitewidth.statistics.kernels import Kernels, kernels


class TrainingProblem(NamedTuple):
    """A network and its data, with all kernels that a prediction needs.

    Compute it once to ask for several predictions, loss curves or certificates.
    """

    net: MLP
    x_train: Float[Array, "train d"]
    y: Float[Array, "train out"]
    x_test: Float[Array, "test d"]
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
        warn_of_few_rows(y)
        every = kernels(net, x_train), kernels(net, x_test, x_train), kernels(net, x_test)
        # What follows is LAPACK; its threads and those of a kernel still under way would fight for the cores.
        return cls(net, x_train, y, x_test, *jax.block_until_ready(every))

    def refuse_duplicates(self, which: str, kernel: Float[Array, "train train"]) -> None:
        """Say which training points are equal; rounding may hide it from the kernel."""
        pair = first_duplicate(self.x_train)
        if pair is not None:
            raise SingularKernelError(
                f"{which} is singular: training points {pair[0]} and {pair[1]} are equal. "
                f"Remove one, or pass ridge (or noise) > 0, say {suggested_ridge(kernel):.1g}."
            )


def trained_distribution(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    *,
    initial: Start | None = None,
    ridge: float = 0.0,
) -> TrainedDistribution:
    """Mean and covariance of the trained outputs.

    `initial` is a given starting function, or its outputs on the training and the test points; without
    it the start is random, with zero mean and covariance K.
    """
    if algorithm.converged and ridge == 0:
        problem.refuse_duplicates("the training NTK", problem.train.ntk)
    M = smoother(problem.train.ntk, problem.test_train.ntk, algorithm, ridge)
    if initial is not None:
        at_train, at_test = starting_outputs(initial, problem.x_train, problem.x_test, problem.y.shape[1])
        return TrainedDistribution(at_test + M @ (problem.y - at_train), jnp.zeros_like(problem.test.nngp))
    spread = symmetric_product(M, problem.train.nngp, problem.test_train.nngp)
    return TrainedDistribution(M @ problem.y, problem.test.nngp + spread)
