r"""The trained distribution to first order in 1/width.

$E[z]=My+\frac1n c+O(n^{-2})$ with n the width of the last hidden layer and the other hidden widths in fixed
proportion to it. A handful of points has its coefficient from dense tensors, by quadrature; more points by
sampled neurons, with a standard error.
"""

import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.expectations.derivative_moments import is_smooth
from finitewidth.linalg.eigenvalues import largest_eigenvalue
from finitewidth.prediction.dense_covariance import dense_covariance
from finitewidth.prediction.dense_mean import dense_mean
from finitewidth.prediction.distribution import FirstOrder, Origins, TrainedDistribution
from finitewidth.prediction.expansion_range import ExpansionRange
from finitewidth.prediction.infinite_width import TrainingProblem
from finitewidth.prediction.kernel_noise import dense_kernel_noise, sampled_kernel_noise
from finitewidth.prediction.methods import DenseTensors, Method, Progress, SampledNeurons
from finitewidth.prediction.modes import TrainingModes
from finitewidth.prediction.sampled_covariance import sampled_covariance
from finitewidth.prediction.sampled_mean import sampled_mean
from finitewidth.statistics.corrections import corrections
from finitewidth.statistics.hidden_layers import layer_kernels

# Dense tensors of more points take longer than sampling does.
FEW_POINTS = 14
# Labels (output, point) of the covariance's tensors, which have four of them.
_MOST_LABELS = 40


def first_order(
    problem: TrainingProblem,
    algorithm: SpectralAlgorithm,
    infinite: TrainedDistribution,
    method: Method | None,
    progress: Progress | None = None,
) -> TrainedDistribution:
    """The infinite-width law with its correction of order 1/width."""
    net = problem.net
    x = np.concatenate([problem.x_train, problem.x_test]).astype(float)
    if method is None:
        method = DenseTensors() if len(x) <= FEW_POINTS else SampledNeurons()
    y = np.asarray(problem.y, dtype=float)
    n = net.hidden[-1]
    if isinstance(method, DenseTensors):
        tensors = corrections(net, x, tolerance=method.tolerance)
        modes = TrainingModes.of(np.asarray(tensors.K), np.asarray(tensors.Theta), y, algorithm)
        _refuse_singular(modes)
        origins = dense_mean(tensors, modes)
        error, samples = np.zeros_like(origins.total), 0
        errors = Origins(*(np.zeros_like(o) for o in origins))
        kappa = dense_kernel_noise(tensors, modes)
        few = len(x) * y.shape[1] <= _MOST_LABELS
        spread = _Spread.of_outputs(dense_covariance(tensors, modes)) if few else None
    else:
        kernels = layer_kernels(net, x)
        modes = TrainingModes.of(kernels.K, kernels.Theta, y, algorithm)
        _refuse_singular(modes)
        accuracy = method.covariance_error
        share = 1.0 if accuracy is None else 0.5
        sampled = sampled_mean(net, kernels, modes, method, _stage(progress, 0.0, share))
        origins, errors, error, samples = (
            sampled.origins,
            sampled.standard_errors,
            sampled.standard_error,
            sampled.samples,
        )
        kappa = sampled_kernel_noise(net, kernels, modes, method.key)
        spread = None
        if accuracy is not None:
            report = _stage(progress, share, 1.0)
            found = sampled_covariance(net, kernels, modes, method, accuracy, report)
            samples += found.samples
            spread = _Spread.of_average(found.coefficient, found.standard_error, y.shape[1])
    size = ExpansionRange.of(net.hidden, np.asarray(infinite.mean), np.asarray(origins.total), kappa)
    size.warn()
    law = _corrected(infinite, origins, errors, error, spread, size, samples, n)
    _warn_of_negative_variance(law, n)
    return law


class _Spread(NamedTuple):
    """Coefficient of the covariance averaged over outputs, its standard error, and that of all outputs."""

    own: Float[np.ndarray, "test test"]
    error: Float[np.ndarray, "test test"]
    outputs: Float[np.ndarray, "test out test out"] | None

    @classmethod
    def of_outputs(cls, outputs: Float[np.ndarray, "test out test out"]) -> "_Spread":
        own = np.einsum("aobo->ab", outputs) / outputs.shape[1]
        return cls(own, np.zeros_like(own), outputs)

    @classmethod
    def of_average(
        cls, own: Float[np.ndarray, "test test"], error: Float[np.ndarray, "test test"], outputs: int
    ) -> "_Spread":
        return cls(own, error, own[:, None, :, None] if outputs == 1 else None)


def _stage(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """The same report, for a stage of the work."""
    if progress is None:
        return None
    return lambda done, error: progress(begin + (end - begin) * done, error)


def _warn_of_negative_variance(law: TrainedDistribution, n: int) -> None:
    negative = (
        int(np.sum(np.diag(np.asarray(law.covariance)) < 0)) if law.covariance_correction is not None else 0
    )
    if negative:
        warnings.warn(
            f"the expansion in 1/width is not small on this data: at width {n} the corrected variance is "
            f"negative at {negative} of {len(law.mean)} test points, where std is 0.",
            stacklevel=3,
        )


def _corrected(
    infinite: TrainedDistribution,
    origins: Origins,
    errors: Origins,
    error: Float[np.ndarray, "test out"],
    spread: _Spread | None,
    size: ExpansionRange,
    samples: int,
    n: int,
) -> TrainedDistribution:
    dtype = infinite.mean.dtype
    array = lambda a: jnp.asarray(a, dtype)
    correction = array(origins.total / n)
    own, own_error, outputs = (
        None if part is None else array(part / n) for part in (spread or (None, None, None))
    )
    return TrainedDistribution(
        mean=infinite.mean + correction,
        covariance=infinite.covariance if own is None else infinite.covariance + own,
        first_order=FirstOrder(
            mean_correction=correction,
            mean_correction_error=array(error / n),
            origin=Origins(*(array(o / n) for o in origins)),
            origin_error=Origins(*(array(e / n) for e in errors)),
            covariance_correction=own,
            covariance_correction_error=own_error,
            output_covariance_correction=outputs,
            range=size,
            samples=samples,
        ),
    )


def refuse(problem: TrainingProblem, algorithm: SpectralAlgorithm) -> None:
    """Say in one sentence why there is no expansion in 1/width."""
    net = problem.net
    if not net.hidden:
        raise ValueError("order=1 needs a hidden layer; a linear model has no corrections in 1/width.")
    if min(net.hidden) < 2:
        raise ValueError(
            f"hidden={net.hidden} has a layer of width 1, where an expansion in 1/width says nothing; "
            "every hidden layer must have at least 2 neurons."
        )
    if not is_smooth(net.activation.function):
        raise ValueError(
            f"order=1 needs a smooth activation, because the kernel's changes in training average its "
            f"curvature, and {net.activation.name!r} has a kink; use tanh, gelu, silu, softplus or order=0."
        )
    algorithm.resolved(largest_eigenvalue(problem.train.ntk)).clock()
    if algorithm.converged:
        problem.refuse_duplicates("the training NTK", problem.train.ntk)


def _refuse_singular(modes: TrainingModes) -> None:
    limit = len(modes.t) * np.finfo(float).eps * modes.t[-1]
    if modes.algorithm.converged and modes.t[0] <= limit:
        raise ValueError(
            f"the training NTK is singular (eigenvalues from {modes.t[0]:.1e} to {modes.t[-1]:.1e}), so the "
            "end of training has no expansion in 1/width; remove dependent training points or stop training: "
            "GradientDescent(steps=...) or GradientFlow(time=...)."
        )
