"""What finite width adds to the law of trained networks at infinite width."""

from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth.prediction.law.expansion_range import ExpansionRange
from finitewidth.prediction.law.kink_range import KinkRange


class Origins(NamedTuple):
    """A correction of the mean split by where it comes from.

    `mean_ntk` and `ntk_fluctuations` also exist in networks whose kernel stays at its random start; `dntk`
    and `ddntk`, the first and second change of the kernel in training, are representation learning.
    """

    mean_ntk: Float[AnyArray, "test out"]
    ntk_fluctuations: Float[AnyArray, "test out"]
    dntk: Float[AnyArray, "test out"]
    ddntk: Float[AnyArray, "test out"]

    @property
    def total(self) -> Float[AnyArray, "test out"]:
        """The whole correction."""
        return sum(self[1:], start=self[0])


class Correction(eqx.Module):
    """What is added to the mean and the covariance of infinite width, at the network's own width.

    Attributes
    ----------
    mean, mean_error
        (test, out), and its standard error, zero where nothing was sampled.
    covariance, covariance_error
        (test, test), averaged over the outputs, and its standard error; None where it was not computed.
    output_covariance
        (test, out, test, out): at finite width different outputs are correlated and have different variances.
        None where it was not computed; sampling gives the average over several outputs only.
    origin, origin_error
        The correction of the mean split by origin; None where the method does not tell origins apart.
    validity
        How small the correction is, and from which width on it can be trusted; None where the method has no
        such width.
    samples
        Number of sampled neurons, zero where nothing was sampled.
    """

    mean: Float[Array, "test out"]
    mean_error: Float[Array, "test out"]
    covariance: Float[Array, "test test"] | None = None
    covariance_error: Float[Array, "test test"] | None = None
    output_covariance: Float[Array, "test out test out"] | None = None
    origin: Origins | None = None
    origin_error: Origins | None = None
    validity: ExpansionRange | KinkRange | None = None
    samples: int = eqx.field(static=True, default=0)
