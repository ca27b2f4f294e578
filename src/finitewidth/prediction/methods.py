"""How a law is computed: the settings of Bayesian inference and of the corrections in 1/width.

Settings are pytrees without numbers of their own, so that a law passes through `jax.jit` with them.
"""

import math
from collections.abc import Callable

import equinox as eqx
import jax
from jaxtyping import PRNGKeyArray

from finitewidth.checks import check_key, is_number, plain

Progress = Callable[[float, float], None]


class BayesianInference(eqx.Module):
    """Condition the prior of random networks on the training labels.

    Parameters
    ----------
    noise
        Variance of the observation noise.
    """

    noise: float | int = eqx.field(static=True, converter=plain, default=0.0)

    def __check_init__(self):
        if not (is_number(self.noise) and 0 <= self.noise < math.inf):
            raise ValueError(f"noise must be a variance, zero or more, got {self.noise!r}.")


class DenseTensors(eqx.Module):
    """All tensors by quadrature, for a handful of points, training and test together.

    Parameters
    ----------
    tolerance
        Relative accuracy of the averages over one neuron; the coefficient then has some six digits.
    """

    tolerance: float = eqx.field(static=True, converter=plain, default=1e-7)

    def __check_init__(self):
        if not (is_number(self.tolerance) and self.tolerance > 0):
            raise ValueError(f"tolerance must be a positive number, got {self.tolerance!r}.")


class SampledNeurons(eqx.Module):
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


Method = DenseTensors | SampledNeurons
