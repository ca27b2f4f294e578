"""Two laws for one wide network: trained by gradient descent, or conditioned on the labels."""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.dynamics.algorithms import DirectOptimization, SpectralAlgorithm
from finitewidth.prediction.bayesian import posterior
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.infinite_width import trained_distribution
from finitewidth.prediction.methods import BayesianInference
from finitewidth.prediction.training_problem import TrainingProblem


class Contrast(NamedTuple):
    """The law of trained networks (governed by the NTK) beside the posterior (the NNGP).

    The posterior is what one gets by training the last layer only. Training every layer adds the
    features' own motion: the two means differ, and the ensemble is not a sample of the posterior.
    """

    trained: TrainedDistribution
    posterior: TrainedDistribution

    @property
    def mean_gap(self) -> Float[Array, "test out"]:
        """Trained mean minus posterior mean."""
        return self.trained.mean - self.posterior.mean

    @property
    def std_ratio(self) -> Float[Array, " test"]:
        """Spread of trained networks over posterior spread, at each test point."""
        return self.trained.std / self.posterior.std

    @property
    def divergence(self) -> Float[Array, " test"]:
        """Kullback-Leibler divergence of the trained law from the posterior, point by point, over outputs."""
        ratio = self.std_ratio**2
        gap = jnp.sum(self.mean_gap**2, axis=1) / self.posterior.std**2
        return 0.5 * (gap + self.mean_gap.shape[1] * (ratio - 1 - jnp.log(ratio)))


def contrast(
    problem: TrainingProblem,
    *,
    noise: float | int = 0.0,
    algorithm: SpectralAlgorithm | None = None,
    ridge: float | int | None = None,
) -> Contrast:
    """Both laws on the same data.

    Parameters
    ----------
    problem
        `TrainingProblem.of(net, x_train, y_train, x_test)`.
    noise
        Observation noise of the posterior.
    algorithm
        How the networks are trained; to the end by default.
    ridge
        Of the trained networks; the noise by default, so that both shrink alike.
    """
    ridge = noise if ridge is None else ridge
    return Contrast(
        trained_distribution(problem, algorithm or DirectOptimization(), ridge=ridge),
        posterior(problem, BayesianInference(noise)),
    )
