"""`SampledNeurons`: the corrections of hundreds of points, with standard errors."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth._base.checks import check_key, is_number, plain
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.prediction.law.correction import Correction
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.methods import Method, Progress
from finitewidth.prediction.methods.first_order.coefficients import Coefficients, Expansion
from finitewidth.prediction.methods.first_order.kernel_variance import sampled_kernel_variance
from finitewidth.prediction.methods.first_order.sampled.covariance import sampled_covariance
from finitewidth.prediction.methods.first_order.sampled.mean import sampled_mean
from finitewidth.prediction.methods.first_order.sampled.stratified import Aim, Sampling
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.first_order.hidden_layers import layer_kernels


class SampledNeurons(Method):
    """Contract the tensors with the data by sampling neurons; nothing with four labels is formed.

    Parameters
    ----------
    relative_error
        Standard error to reach, relative to the coefficient, both as root mean squares over test points.
    most_samples
        Where to stop if that takes too long, for mean and covariance each; the standard error says what was
        reached.
    covariance_error
        The same for the variances at the test points; None leaves the covariance as it is at infinite width.
    key
        Randomness.
    single_precision
        Whether samples are computed in float32; kernels and sums are always in float64.
    """

    relative_error: float = eqx.field(static=True, converter=plain, default=0.03)
    most_samples: int = eqx.field(static=True, converter=plain, default=4_000_000)
    covariance_error: float | None = eqx.field(static=True, converter=plain, default=0.05)
    key: PRNGKeyArray = eqx.field(default_factory=lambda: jax.random.key(0))
    single_precision: bool = eqx.field(static=True, converter=plain, default=True)

    def __check_init__(self):
        if not (is_number(self.relative_error) and self.relative_error > 0):
            raise ValueError(f"relative_error must be positive, got {self.relative_error!r}.")
        if self.covariance_error is not None and not (
            is_number(self.covariance_error) and self.covariance_error > 0
        ):
            raise ValueError(f"covariance_error must be positive or None, got {self.covariance_error!r}.")
        check_key(self.key)
        if not (is_number(self.most_samples) and self.most_samples >= 1):
            raise ValueError(f"most_samples must be positive, got {self.most_samples!r}.")

    def correct(
        self,
        problem: TrainingProblem,
        algorithm: SpectralAlgorithm,
        infinite: TrainedDistribution,
        *,
        ridge: float = 0.0,
        progress: Progress | None = None,
    ) -> Correction:
        expansion = Expansion.of(problem, algorithm, ridge)
        kernels = layer_kernels(expansion.net, np.asarray(expansion.x))
        modes = expansion.modes(kernels.K, kernels.Theta, algorithm, ridge)
        sampling = Sampling.of(kernels, modes, jnp.float32 if self.single_precision else jnp.float64)
        share = 1.0 if self.covariance_error is None else 0.5
        rng = np.random.default_rng(np.asarray(jax.random.key_data(self.key)).tolist())
        aim = Aim(self.relative_error, self.most_samples)
        mean = sampled_mean(sampling, aim, rng, _stage(progress, 0.0, share))
        kappa = sampled_kernel_variance(sampling, rng)
        found = Coefficients(mean.origins, mean.standard_errors, mean.standard_error, kappa, mean.samples)
        if self.covariance_error is not None:
            aim = Aim(self.covariance_error, self.most_samples)
            spread = sampled_covariance(sampling, aim, rng, _stage(progress, share, 1.0))
            own, one_output = spread.coefficient, modes.Y.shape[1] == 1
            found = found._replace(
                samples=mean.samples + spread.samples,
                covariance=own,
                covariance_error=spread.standard_error,
                output_covariance=own[:, None, :, None] if one_output else None,
            )
        return found.over_width(expansion.net.hidden, infinite)


def _stage(progress: Progress | None, begin: float, end: float) -> Progress | None:
    """The same report, for a stage of the work."""
    if progress is None:
        return None
    return lambda done, error: progress(begin + (end - begin) * done, error)
