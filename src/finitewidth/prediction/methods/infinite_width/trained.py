r"""The trained distribution of infinitely wide networks.

At initialisation the outputs are Gaussian with covariance K. Training is linear in the initial outputs,
$z_B = z_B(0) + M\,(y - z_A(0))$, so the trained outputs are Gaussian too, with mean $M y$ and covariance
$K_{BB} - M K_{AB} - K_{BA} M^T + M K_{AA} M^T$.
"""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.either import holds_tracer, traced
from finitewidth._base.linalg.cholesky import symmetric_product
from finitewidth._base.linalg.congruence import congruence_diagonal
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.algorithms.kernel_descent import Spectrum, smoother, spectral_filter
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.pointwise import PointwiseLaw
from finitewidth.prediction.problem.data import Start, starting_outputs
from finitewidth.prediction.problem.training_problem import ProblemKernels, TrainingProblem


def trained_distribution(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    *,
    initial: Start | None = None,
    ridge: float | Array = 0.0,
) -> TrainedDistribution:
    """Mean and covariance of the trained outputs.

    `initial` is a given starting function, or its outputs on the training and the test points; without
    it the start is random, with zero mean and covariance K.
    """
    if algorithm.converged and not holds_tracer(ridge) and ridge == 0:
        problem.refuse_duplicates()
    start = None
    spectrum = None if problem.modes is None else problem.modes.spectrum
    if initial is not None:
        start = starting_outputs(initial, problem.x_train, problem.x_test, problem.y.shape[1])
    return law_of_training(problem.kernels_held, problem.y, algorithm, start, ridge, spectrum)


def law_of_training(
    kernels: ProblemKernels,
    y: Float[Array, "train out"],
    algorithm: SpectralAlgorithm,
    start: tuple[Array, Array] | None = None,
    ridge: float | Array = 0.0,
    spectrum: Spectrum | None = None,
) -> TrainedDistribution:
    """The same from kernels alone; `start` are outputs at the training and the test points."""
    M = smoother(kernels.train.ntk, kernels.test_train.ntk, algorithm, ridge, spectrum)
    if start is not None:
        at_train, at_test = start
        return TrainedDistribution(at_test + M @ (y - at_train), jnp.zeros((len(M), len(M)), M.dtype))
    if traced(M):
        half = M @ (kernels.train.nngp @ M.T / 2 - kernels.test_train.nngp.T)
        return TrainedDistribution(M @ y, kernels.test.nngp + half + half.T)
    spread = symmetric_product(M, kernels.train.nngp, kernels.test_train.nngp)
    return TrainedDistribution(M @ y, kernels.test.nngp + spread)


def pointwise_law(
    problem: TrainingProblem, algorithm: SpectralAlgorithm, *, ridge: float = 0.0
) -> PointwiseLaw:
    r"""The diagonal of that covariance, for a problem that `TrainingProblem.in_modes` returned.

    With the eigenvectors V of the training NTK, $R = \Theta_{BA}V$, $S = K_{BA}V$ and the gains g, it is
    $K_{bb} - 2\sum_j S_{bj}g_jR_{bj} + \sum_{jk}R_{bj}g_j\tilde K_{jk}g_kR_{bk}$.
    """
    modes = problem.modes
    if modes is None or modes.test is None:
        raise ValueError("problem has no modes of its test points: make it with TrainingProblem.in_modes.")
    if algorithm.converged and ridge == 0:
        problem.refuse_duplicates()
    V, gain = spectral_filter(modes.spectrum, algorithm, ridge)
    V, gain, test = np.asarray(V), np.asarray(gain), modes.test
    mean = test.reach @ (gain[:, None] * (V.T @ np.asarray(problem.y)))
    overlap = np.einsum("ij,ij,j->i", test.nngp, test.reach, gain)
    spread = congruence_diagonal(test.reach, np.asarray(modes.nngp), gain, precise=True)
    return PointwiseLaw(jnp.asarray(mean), jnp.asarray(test.prior - 2 * overlap + spread))
