r"""The trained distribution of infinitely wide networks.

At initialisation the outputs are Gaussian with covariance K. Training is linear in the initial outputs,
$z_B = z_B(0) + M\,(y - z_A(0))$, so the trained outputs are Gaussian too, with mean $M y$ and covariance
$K_{BB} - M K_{AB} - K_{BA} M^T + M K_{AA} M^T$.
"""

import dataclasses

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.either import holds_tracer, traced
from finitewidth._base.linalg.cholesky import symmetric_product
from finitewidth._base.linalg.congruence import congruence_diagonal
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.algorithms.kernel_descent import (
    SpectralFilter,
    Spectrum,
    smoothed,
    spectral_filter,
    training_filter,
)
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.numerical_error import (
    KernelParts,
    NumericalError,
    Spread,
    error_at_probes,
    numerical_error,
    probes,
)
from finitewidth.prediction.law.pointwise import PointwiseLaw
from finitewidth.prediction.problem.data import Start, starting_outputs
from finitewidth.prediction.problem.kernel_modes import KernelModes, PointsInModes
from finitewidth.prediction.problem.training_problem import ProblemKernels, TrainingProblem
from finitewidth.statistics.wide.rounding import KernelRounding


def trained_distribution(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    *,
    initial: Start | None = None,
    ridge: float | Array = 0.0,
    rounding: KernelRounding | None = None,
) -> TrainedDistribution:
    """Mean and covariance of the trained outputs.

    `initial` is a given starting function, or its outputs on the training and the test points; without
    it the start is random, with zero mean and covariance K. Told how exact the kernels are, by `rounding`,
    the law says how exact it is itself.
    """
    if algorithm.converged and not holds_tracer(ridge) and ridge == 0:
        problem.refuse_duplicates()
    start = None
    spectrum = None if problem.modes is None else problem.modes.spectrum
    if initial is not None:
        start = starting_outputs(initial, problem.x_train, problem.x_test, problem.y.shape[1])
    return law_of_training(problem.kernels_held, problem.y, algorithm, start, ridge, spectrum, rounding)


def law_of_training(
    kernels: ProblemKernels,
    y: Float[Array, "train out"],
    algorithm: SpectralAlgorithm,
    start: tuple[Array, Array] | None = None,
    ridge: float | Array = 0.0,
    spectrum: Spectrum | None = None,
    rounding: KernelRounding | None = None,
) -> TrainedDistribution:
    """The same from kernels alone; `start` are outputs at the training and the test points."""
    training = training_filter(kernels.train.ntk, algorithm, ridge, spectrum)
    M = smoothed(training, kernels.test_train.ntk, spectrum)
    if start is not None:
        at_train, at_test = start
        y = y - at_train
        law = TrainedDistribution(at_test + M @ y, jnp.zeros((len(M), len(M)), M.dtype))
    elif traced(M):
        half = M @ (kernels.train.nngp @ M.T / 2 - kernels.test_train.nngp.T)
        law = TrainedDistribution(M @ y, kernels.test.nngp + half + half.T)
    else:
        spread = symmetric_product(M, kernels.train.nngp, kernels.test_train.nngp)
        law = TrainedDistribution(M @ y, kernels.test.nngp + spread)
    if rounding is None or traced(law):
        return law
    nngp = kernels.train.nngp, kernels.test_train.nngp, kernels.test.nngp
    ntk = kernels.train.ntk, kernels.test_train.ntk, kernels.test.ntk
    error = numerical_error(
        ntk, rounding.ntk, nngp if start is None else None, rounding.nngp, M, training.solve, y, law.mean
    )
    return dataclasses.replace(law, numerical_error=error)


def pointwise_law(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    *,
    ridge: float = 0.0,
    rounding: KernelRounding | None = None,
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
    law = PointwiseLaw(jnp.asarray(mean), jnp.asarray(test.prior - 2 * overlap + spread))
    if rounding is None:
        return law
    error = _error_in_modes(modes, test, V, gain, problem.y, mean, rounding)
    return dataclasses.replace(law, numerical_error=error)


def _error_in_modes(
    modes: KernelModes,
    test: PointsInModes,
    V: np.ndarray,
    gain: np.ndarray,
    y: Array,
    mean: np.ndarray,
    rounding: KernelRounding,
) -> NumericalError:
    """From the modes of the kernels; rows of the training NTK are put together where they are needed."""
    some, w, nngp = probes(len(mean)), np.asarray(modes.spectrum.eigenvalues), np.asarray(modes.nngp)
    reach, between = test.reach[some], test.nngp[some]
    M = (reach * gain) @ V.T
    diagonal = np.einsum("ij,ij,j->i", V, V, w)
    through = np.sum(M**2, axis=1) * np.mean(np.diag(nngp)) + test.prior[some]
    spread = Spread(V @ (nngp @ (gain[:, None] * reach.T) - between.T), rounding.nngp.typical * through)
    held = KernelParts(lambda part: (V[part] * w) @ V.T, diagonal, reach @ V.T, test.own[some], M)
    return error_at_probes(held, rounding.ntk, SpectralFilter(V, gain).solve, y, mean, spread)
