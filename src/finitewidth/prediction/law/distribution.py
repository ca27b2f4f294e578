"""The distribution of trained networks at a set of test points."""

import dataclasses
import os
from pathlib import Path
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth._base.checks import check_key, check_whole
from finitewidth._base.either import refuse_traced
from finitewidth.architecture.saving import save
from finitewidth.prediction.law.correction import Correction, Origins
from finitewidth.prediction.law.expansion_range import ExpansionRange
from finitewidth.prediction.law.kink_range import KinkRange
from finitewidth.prediction.law.numerical_error import NumericalError
from finitewidth.prediction.law.provenance import Provenance
from finitewidth.prediction.law.trusted_range import TrustedRange, range_of
from finitewidth.prediction.problem.data import as_targets
from finitewidth.statistics.wide.inputs import ArrayLike

_Part = TypeVar("_Part")


class TrainedDistribution(eqx.Module):
    """Mean and covariance over initialisations of the trained network's outputs.

    The outputs of one network at the test points are jointly Gaussian at infinite width; different
    output components are independent and share one covariance.

    Attributes
    ----------
    mean
        (test, out)
    covariance
        (test, test), of every output component; their average where finite width tells them apart.
    correction
        What finite width adds, included in mean and covariance; None for order=0.
    provenance
        The training problem and its settings, when the law comes from `predict`: what `verify` trains.
    numerical_error
        What rounding makes of mean and variances at infinite width, estimated; None where nobody asked.
    """

    mean: Float[Array, "test out"]
    covariance: Float[Array, "test test"]
    correction: Correction | None = None
    provenance: Provenance | None = None
    numerical_error: NumericalError | None = None

    def save(self, path: str | os.PathLike) -> Path:
        """Write the law, its network, data and settings into one file; `finitewidth.load` reads it.

        Every bit comes back but the kernels, which are larger than all the rest: a loaded law computes them
        again when they are asked for. The file is an NPZ archive with nothing executable in it; one of that
        name is replaced once the new one is complete.
        """
        refuse_traced("save", self)
        origin = self.provenance
        if origin is None:
            return save(self, path)
        bare = dataclasses.replace(
            origin, problem=dataclasses.replace(origin.problem, kernels=None, modes=None)
        )
        return save(dataclasses.replace(self, provenance=bare), path)

    def corrected(self, correction: Correction) -> "TrainedDistribution":
        """This law of infinite width with what finite width adds to it."""
        covariance = self.covariance
        if correction.covariance is not None:
            covariance = covariance + correction.covariance
        return TrainedDistribution(
            self.mean + correction.mean, covariance, correction, self.provenance, self.numerical_error
        )

    @property
    def infinite_width(self) -> "TrainedDistribution":
        """This law without what finite width adds."""
        if self.correction is None:
            return self
        added = self.correction.covariance
        covariance = self.covariance if added is None else self.covariance - added
        mean = self.mean - self.correction.mean
        return TrainedDistribution(mean, covariance, numerical_error=self.numerical_error)

    @property
    def mean_correction(self) -> Float[Array, "test out"]:
        """What finite width adds to the mean."""
        return self._correction.mean

    @property
    def mean_correction_error(self) -> Float[Array, "test out"]:
        """Standard error of that, from sampling."""
        return self._correction.mean_error

    @property
    def origin(self) -> Origins:
        """The correction of the mean, split by origin."""
        return _given(self._correction.origin, "the correction by origin")

    @property
    def covariance_correction(self) -> Float[Array, "test test"] | None:
        """What finite width adds to the covariance; None where it was not computed."""
        return self._correction.covariance

    @property
    def covariance_correction_error(self) -> Float[Array, "test test"] | None:
        """Standard error of that, from sampling."""
        return self._correction.covariance_error

    @property
    def output_covariance_correction(self) -> Float[Array, "test out test out"] | None:
        """The same for all pairs of outputs; None where it was not computed."""
        return self._correction.output_covariance

    @property
    def validity(self) -> ExpansionRange | KinkRange:
        """How small the correction is."""
        return _given(self._correction.validity, "a range of validity")

    @property
    def range(self) -> TrustedRange:
        """How this law was computed, whether to trust that at this width, and what else to ask for."""
        return range_of(self)

    @property
    def _correction(self) -> Correction:
        if self.correction is None:
            raise AttributeError("this law is that of infinite width: ask predict for order=1.")
        return self.correction

    @property
    def std(self) -> Float[Array, " test"]:
        """Standard deviation over initialisations at each test point."""
        return _std(self.covariance)

    def sample(self, key: PRNGKeyArray, n: int) -> Float[Array, "n test out"]:
        """Outputs of n trained networks at the test points."""
        check_key(key)
        check_whole("n", n, least=0)
        test, out = self.mean.shape
        eigenvalues, eigenvectors = jnp.linalg.eigh(self.covariance)
        root = eigenvectors * jnp.sqrt(jnp.maximum(eigenvalues, 0))
        noise = jax.random.normal(key, (n, test, out), self.mean.dtype)
        return self.mean + jnp.einsum("ts,nso->nto", root, noise)

    def expected_loss(self, y: ArrayLike) -> Float[Array, ""]:
        """E of half the sum of squared errors from y, (test,) or (test, out), over initialisations."""
        test, out = self.mean.shape
        y = as_targets(y, test, self.mean.dtype, "y")
        if y.shape[1] != out:
            raise ValueError(f"y has {y.shape[1]} outputs and the law has {out}; they must agree.")
        bias = jnp.sum((self.mean - y) ** 2)
        return 0.5 * (bias + self.mean.shape[1] * jnp.trace(self.covariance))


def _given(part: _Part | None, name: str) -> _Part:
    if part is None:
        raise AttributeError(f"the method of this law does not compute {name}.")
    return part


@jax.jit
def _std(covariance: Float[Array, "test test"]) -> Float[Array, " test"]:
    return jnp.sqrt(jnp.maximum(jnp.diag(covariance), 0))
