r"""The trained distribution of infinitely wide networks.

At initialisation the outputs are Gaussian with covariance K. Training is linear in the initial outputs,
$z_B = z_B(0) + M\,(y - z_A(0))$, so the trained outputs are Gaussian too, with mean $M y$ and covariance
$K_{BB} - M K_{AB} - K_{BA} M^T + M K_{AA} M^T$.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.dynamics.kernel_descent import smoother
from finitewidth.linalg.cholesky import symmetric_product
from finitewidth.prediction.data import Start, starting_outputs
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.training_problem import ProblemKernels, TrainingProblem


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
    start = None
    if initial is not None:
        start = starting_outputs(initial, problem.x_train, problem.x_test, problem.y.shape[1])
    return law_of_training(problem.kernels_held, problem.y, algorithm, start, ridge)


def law_of_training(
    kernels: ProblemKernels,
    y: Float[Array, "train out"],
    algorithm: SpectralAlgorithm,
    start: tuple[Array, Array] | None = None,
    ridge: float = 0.0,
) -> TrainedDistribution:
    """The same from kernels alone; `start` are outputs at the training and the test points."""
    M = smoother(kernels.train.ntk, kernels.test_train.ntk, algorithm, ridge)
    if start is not None:
        at_train, at_test = start
        return TrainedDistribution(at_test + M @ (y - at_train), jnp.zeros((len(M), len(M)), M.dtype))
    spread = symmetric_product(M, kernels.train.nngp, kernels.test_train.nngp)
    return TrainedDistribution(M @ y, kernels.test.nngp + spread)
