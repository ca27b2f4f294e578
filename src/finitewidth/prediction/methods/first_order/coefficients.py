r"""Coefficients of 1/width, and the networks and trainings that have them.

$E[z]=My+\frac1n c+O(n^{-2})$ with n the width of the last hidden layer and the other hidden widths in fixed
proportion to it.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.either import holds_tracer, known, traced
from finitewidth._base.linalg.eigenvalues import largest_eigenvalue
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.mlp import MLP
from finitewidth.prediction.law.correction import Correction, Origins
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.expansion_range import ExpansionRange
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.first_order.fluctuations import expandable


class Coefficients(NamedTuple):
    """Coefficients of 1/n with standard errors, kappa, and the number of samples.

    `covariance` is averaged over outputs; None where it was not computed.
    """

    origins: Origins
    origin_errors: Origins
    error: Float[AnyArray, "test out"]
    kappa: float | Array
    samples: int = 0
    covariance: Float[AnyArray, "test test"] | None = None
    covariance_error: Float[AnyArray, "test test"] | None = None
    output_covariance: Float[AnyArray, "test out test out"] | None = None

    def over_width(self, hidden: tuple[int, ...], infinite: TrainedDistribution) -> Correction:
        """What the coefficients add to the infinite-width law, in its precision."""
        n, dtype = hidden[-1], infinite.mean.dtype
        over_n = lambda part: jax.tree.map(lambda a: jnp.asarray(a / n, dtype), part)
        validity = None
        if not traced(infinite, self):
            mean, coefficient = np.asarray(infinite.mean), np.asarray(self.origins.total)
            validity = ExpansionRange.of(hidden, mean, coefficient, float(self.kappa))
        return Correction(
            mean=over_n(self.origins.total),
            mean_error=over_n(self.error),
            covariance=over_n(self.covariance),
            covariance_error=over_n(self.covariance_error),
            output_covariance=over_n(self.output_covariance),
            origin=over_n(self.origins),
            origin_error=over_n(self.origin_errors),
            validity=validity,
            samples=self.samples,
        )


class Expansion(NamedTuple):
    """What the coefficients are computed from: the network as dense layers, all points, and the targets."""

    net: MLP
    x: Float[AnyArray, "p d"]
    y: Float[AnyArray, "train out"]

    @classmethod
    def of(cls, problem: TrainingProblem, algorithm: SpectralAlgorithm, ridge: float | Array) -> "Expansion":
        """All points, the training points first; one sentence where there is no expansion in 1/width."""
        net = expandable(problem.net)
        if net.activation.kinks:
            raise ValueError(
                f"order=1 needs an activation without kinks, and {net.activation.name!r} has one: trained "
                "networks then approach infinite width as 1/sqrt(width), because neurons near the kink cross "
                'it or are held at it; use order="1/2" (or tanh, gelu, silu, softplus).'
            )
        followed = traced(problem, algorithm, ridge)
        held = holds_tracer(ridge) or ridge > 0
        if not followed:
            resolved = algorithm.resolved(largest_eigenvalue(problem.train.ntk) + ridge)
            if not (algorithm.converged and held):
                # The end of training with a ridge is one point, whatever the path to it.
                resolved.clock()
        if algorithm.converged and not held:
            problem.refuse_duplicates()
        numpy = jnp if followed else np
        x = numpy.concatenate([problem.x_train, problem.x_test]).astype(float)
        return cls(net, x, numpy.asarray(problem.y, dtype=float))

    def modes(
        self,
        K: Float[AnyArray, "p p"],
        Theta: Float[AnyArray, "p p"],
        algorithm: SpectralAlgorithm,
        ridge: float | Array,
    ) -> TrainingModes:
        """The eigenbasis of training; a singular kernel has no end of training without a ridge."""
        modes = TrainingModes.of(known(K), known(Theta), self.y, algorithm, ridge=ridge)
        if holds_tracer(modes):
            return modes
        limit = len(modes.t) * np.finfo(float).eps * modes.t[-1]
        if modes.ridge == 0 and modes.algorithm.converged and modes.t[0] <= limit:
            raise ValueError(
                f"the training NTK is singular (eigenvalues from {modes.t[0]:.1e} to {modes.t[-1]:.1e}), so "
                "the end of training has no expansion in 1/width; remove dependent training points or stop "
                "training: GradientDescent(steps=...) or GradientFlow(time=...)."
            )
        return modes
