"""The trained covariance to order 1/n by sampled neurons, for hundreds of points.

What is to be known with a given relative error are the variances: most covariances are close to zero, and to
tell them from zero would take as many times the samples as there are test points.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.prediction.law.methods import Progress
from finitewidth.prediction.methods.first_order.projector_weights import first_weights
from finitewidth.prediction.methods.first_order.sampled.kinds import COVARIANCE_KINDS
from finitewidth.prediction.methods.first_order.sampled.stratified import Aim, Sampling, sample_until

# Relative to the variance before training, a coefficient that no width makes visible.
_NEGLIGIBLE = 1e-6


class SampledCovariance(NamedTuple):
    """Coefficient of 1/n, averaged over outputs, its standard error, and the number of samples."""

    coefficient: Float[np.ndarray, "test test"]
    standard_error: Float[np.ndarray, "test test"]
    samples: int


def sampled_covariance(
    sampling: Sampling, aim: Aim, rng: np.random.Generator, progress: Progress | None = None
) -> SampledCovariance:
    """Coefficient of 1/n_{L-1} in the covariance of a trained output at the test points.

    With several outputs it is the average of their own covariances.
    """
    exact = unsampled_covariance(sampling)
    strata = sampling.strata(COVARIANCE_KINDS)
    before = np.diag(sampling.modes.K)[sampling.modes.train :]
    negligible = _NEGLIGIBLE * float(np.sqrt(np.mean(before**2)))
    aim = aim._replace(matters=np.diag, negligible=negligible)
    samples = sample_until(aim, sampling, strata, exact, rng, progress)
    coefficient = exact + sum(s.mean for s in strata)
    # Sums in single precision are symmetric up to rounding only.
    coefficient = (coefficient + coefficient.T) / 2
    return SampledCovariance(coefficient, np.sqrt(sum(s.variance / s.count for s in strata)), samples)


def unsampled_covariance(sampling: Sampling) -> Float[np.ndarray, "test test"]:
    """The parts of the shifted mean kernels: of the initial outputs, and of the one that learns them."""
    modes, shifts = sampling.modes, sampling.shifts
    train, t, U, bar = modes.train, modes.t, modes.U, modes.unlearnt
    h = first_weights(t, modes.algorithm)
    Ku = bar @ modes.K[:, :train] @ U
    on_modes = shifts.H1[:, :train] @ U
    # A source in mode q, made by mode k, is unlearnt by the rest of training.
    later = 1 / np.outer(t, t) if modes.algorithm.converged else modes.algorithm.clock().rate * h[1:]
    reached = modes.Theta_modes[train:] @ (U.T @ on_modes[:train] * later)
    with_kernel = Ku @ (on_modes[train:] * h[0] - reached).T
    return np.asarray(bar @ shifts.G1 @ bar.T - with_kernel - with_kernel.T)
