"""The trained mean to order 1/n by sampled neurons, for hundreds of points."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.prediction.law.correction import Origins
from finitewidth.prediction.law.methods import Progress
from finitewidth.prediction.methods.first_order.projector_weights import first_weights
from finitewidth.prediction.methods.first_order.sampled.kinds import MEAN_KINDS, MeanKind
from finitewidth.prediction.methods.first_order.sampled.stratified import Aim, Sampling, sample_until


class SampledMean(NamedTuple):
    """Coefficient of 1/n by origin, its standard errors, and the number of samples."""

    origins: Origins
    standard_errors: Origins
    samples: int

    @property
    def standard_error(self) -> Float[np.ndarray, "test out"]:
        """Of the whole coefficient."""
        return np.sqrt(sum(np.square(error) for error in self.standard_errors))


def sampled_mean(
    sampling: Sampling, aim: Aim, rng: np.random.Generator, progress: Progress | None = None
) -> SampledMean:
    """Coefficient of 1/n_{L-1} in the trained mean at the test points."""
    shift = unsampled_mean(sampling)
    strata = sampling.strata(MEAN_KINDS)
    samples = sample_until(aim, sampling, strata, shift.T, rng, progress)
    values = [shift, *(np.zeros_like(shift) for _ in range(3))]
    squares = [np.zeros_like(shift) for _ in range(4)]
    for stratum in strata:
        assert isinstance(stratum.kind, MeanKind)
        values[stratum.kind.origin] += stratum.mean.T
        squares[stratum.kind.origin] += (stratum.variance / stratum.count).T
    return SampledMean(Origins(*values), Origins(*map(np.sqrt, squares)), samples)


def unsampled_mean(sampling: Sampling) -> Float[np.ndarray, "test out"]:
    """The part of the shifted mean kernel."""
    modes = sampling.modes
    h = first_weights(modes.t, modes.algorithm)
    on_modes = sampling.shifts.H1[:, : modes.train] @ modes.U
    sources = np.einsum("pk,zk,ko->zpo", on_modes, h, modes.Y, optimize=True)
    return np.asarray(modes.delivered(sources)[modes.train :])
