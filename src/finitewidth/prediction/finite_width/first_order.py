r"""The trained distribution to first order in 1/width.

$E[z]=My+\frac1n c+O(n^{-2})$ with n the width of the last hidden layer and the other hidden widths in fixed
proportion to it. A handful of points has its coefficient from dense tensors, by quadrature; more points by
sampled neurons, with a standard error.
"""

import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture import MLP
from finitewidth.arrays import AnyArray
from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.expectations.derivative_moments import is_smooth
from finitewidth.linalg.eigenvalues import largest_eigenvalue
from finitewidth.prediction.distribution import FirstOrder, Origins, TrainedDistribution
from finitewidth.prediction.finite_width.dense.covariance import dense_covariance
from finitewidth.prediction.finite_width.dense.mean import dense_mean
from finitewidth.prediction.finite_width.expansion_range import ExpansionRange
from finitewidth.prediction.finite_width.kernel_variance import dense_kernel_variance, sampled_kernel_variance
from finitewidth.prediction.finite_width.sampled.covariance import sampled_covariance
from finitewidth.prediction.finite_width.sampled.mean import sampled_mean
from finitewidth.prediction.finite_width.training_modes import TrainingModes
from finitewidth.prediction.methods import DenseTensors, Method, Progress, SampledNeurons
from finitewidth.prediction.training_problem import TrainingProblem
from finitewidth.statistics.corrections import corrections
from finitewidth.statistics.fluctuations import expandable
from finitewidth.statistics.hidden_layers import layer_kernels

# Dense tensors of more points take longer than sampling does.
FEW_POINTS = 14
# Labels (output, point) of the covariance's tensors, which have four of them.
_MOST_LABELS = 40


def first_order(
    net: MLP,
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    infinite: TrainedDistribution,
    method: Method | None,
    progress: Progress | None = None,
) -> TrainedDistribution:
    """The infinite-width law with its correction of order 1/width, of `net` as a stack of dense layers."""
    x = np.concatenate([problem.x_train, problem.x_test]).astype(float)
    y = np.asarray(problem.y, dtype=float)
    method = method or method_for(problem)
    if isinstance(method, DenseTensors):
        found = _by_tensors(net, x, y, algorithm, method)
    else:
        found = _by_neurons(net, x, y, algorithm, method, progress)
    mean, coefficient = np.asarray(infinite.mean), np.asarray(found.origins.total)
    validity = ExpansionRange.of(net.hidden, mean, coefficient, found.kappa)
    validity.warn()
    n, dtype = net.hidden[-1], infinite.mean.dtype
    over_n = lambda part: jax.tree.map(lambda a: jnp.asarray(a / n, dtype), part)
    first = FirstOrder(
        mean_correction=over_n(found.origins.total),
        mean_correction_error=over_n(found.error),
        origin=over_n(found.origins),
        origin_error=over_n(found.origin_errors),
        covariance_correction=over_n(found.covariance),
        covariance_correction_error=over_n(found.covariance_error),
        output_covariance_correction=over_n(found.output_covariance),
        validity=validity,
        samples=found.samples,
    )
    covariance = infinite.covariance
    if first.covariance_correction is not None:
        covariance = covariance + first.covariance_correction
        _warn_of_negative_variance(covariance, n)
    return TrainedDistribution(infinite.mean + first.mean_correction, covariance, first)


def method_for(problem: TrainingProblem, sampled: SampledNeurons | None = None) -> Method:
    """Dense tensors for a handful of points, training and test together, otherwise sampled neurons."""
    few = len(problem.x_train) + len(problem.x_test) <= FEW_POINTS
    return DenseTensors() if few else sampled or SampledNeurons()


class _Coefficients(NamedTuple):
    """Coefficients of 1/n with standard errors, kappa, and the number of samples.

    `covariance` is averaged over outputs; None where it was not computed.
    """

    origins: Origins
    origin_errors: Origins
    error: Float[AnyArray, "test out"]
    kappa: float
    samples: int
    covariance: Float[np.ndarray, "test test"] | None = None
    covariance_error: Float[np.ndarray, "test test"] | None = None
    output_covariance: Float[np.ndarray, "test out test out"] | None = None


def _by_tensors(
    net: MLP, x: np.ndarray, y: np.ndarray, algorithm: SpectralAlgorithm, method: DenseTensors
) -> _Coefficients:
    tensors = corrections(net, x, tolerance=method.tolerance)
    modes = TrainingModes.of(np.asarray(tensors.K), np.asarray(tensors.Theta), y, algorithm)
    _refuse_singular(modes)
    origins = dense_mean(tensors, modes)
    exact = Origins(*(np.zeros_like(o) for o in origins))
    mean = (origins, exact, exact.total, dense_kernel_variance(tensors, modes), 0)
    if len(x) * y.shape[1] > _MOST_LABELS:
        return _Coefficients(*mean)
    outputs = dense_covariance(tensors, modes)
    own = np.einsum("aobo->ab", outputs) / outputs.shape[1]
    return _Coefficients(*mean, own, np.zeros_like(own), outputs)


def _by_neurons(
    net: MLP,
    x: np.ndarray,
    y: np.ndarray,
    algorithm: SpectralAlgorithm,
    method: SampledNeurons,
    progress: Progress | None,
) -> _Coefficients:
    kernels = layer_kernels(net, x)
    modes = TrainingModes.of(kernels.K, kernels.Theta, y, algorithm)
    _refuse_singular(modes)
    accuracy = method.covariance_error
    share = 1.0 if accuracy is None else 0.5
    mean = sampled_mean(kernels, modes, method, _stage(progress, 0.0, share))
    kappa = sampled_kernel_variance(kernels, modes, method.key)
    found = (mean.origins, mean.standard_errors, mean.standard_error, kappa)
    if accuracy is None:
        return _Coefficients(*found, mean.samples)
    spread = sampled_covariance(kernels, modes, method, accuracy, _stage(progress, share, 1.0))
    own, one_output = spread.coefficient, y.shape[1] == 1
    outputs = own[:, None, :, None] if one_output else None
    return _Coefficients(*found, mean.samples + spread.samples, own, spread.standard_error, outputs)


def _stage(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """The same report, for a stage of the work."""
    if progress is None:
        return None
    return lambda done, error: progress(begin + (end - begin) * done, error)


def _warn_of_negative_variance(covariance: Float[Array, "test test"], n: int) -> None:
    negative = int(np.sum(np.diag(np.asarray(covariance)) < 0))
    if negative:
        warnings.warn(
            f"the expansion in 1/width is not small on this data: at width {n} the corrected variance is "
            f"negative at {negative} of {len(covariance)} test points, where std is 0.",
            stacklevel=3,
        )


def stack_to_expand(problem: TrainingProblem, algorithm: SpectralAlgorithm, ridge: float = 0.0) -> MLP:
    """The network as a stack of dense layers; says in one sentence why there is no expansion in 1/width."""
    net = expandable(problem.net)
    if not is_smooth(net.activation.function):
        raise ValueError(
            f"order=1 needs a smooth activation, because the kernel's changes in training average its "
            f"curvature, and {net.activation.name!r} has a kink; use tanh, gelu, silu, softplus or order=0."
        )
    resolved = algorithm.resolved(largest_eigenvalue(problem.train.ntk) + ridge)
    if not algorithm.converged or ridge == 0:
        # The end of training with a ridge is one point, whatever the path to it.
        resolved.clock()
    if algorithm.converged and ridge == 0:
        problem.refuse_duplicates("the training NTK", problem.train.ntk)
    return net


def _refuse_singular(modes: TrainingModes) -> None:
    limit = len(modes.t) * np.finfo(float).eps * modes.t[-1]
    if modes.ridge == 0 and modes.algorithm.converged and modes.t[0] <= limit:
        raise ValueError(
            f"the training NTK is singular (eigenvalues from {modes.t[0]:.1e} to {modes.t[-1]:.1e}), so the "
            "end of training has no expansion in 1/width; remove dependent training points or stop training: "
            "GradientDescent(steps=...) or GradientFlow(time=...)."
        )
