"""`TrainedNetworks`: the law at the network's width, measured on networks trained with partners."""

import math
import warnings

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth._base.checks import check_key, check_whole, plain
from finitewidth._base.estimate import Estimate, sample_mean
from finitewidth._base.linalg.eigenvalues import largest_eigenvalue
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.networks import with_outputs
from finitewidth.networks.members import check_members
from finitewidth.networks.training.control_variates import PairedEnsemble, paired_ensemble
from finitewidth.prediction.law.correction import Correction
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.methods import Method, Progress
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.verification.stopping import stop

# Features that a ridge pulls back relax by the factor 1 - eta ridge a step; so much of their way may be left.
_UNSETTLED = 1e-3


class TrainedNetworks(Method):
    """Train networks in pairs with flipped output signs, beside the networks linearised at their start.

    The average of network minus linearised network has little noise; the average of linearised networks needs
    no training and is taken over ten times as many draws. Both estimates are unbiased at any width, depth and
    activation, with any number of outputs.

    Parameters
    ----------
    networks
        How many networks to train, an even number of at least 4.
    key
        Randomness.
    most_steps
        Where training to the end stops at the latest.
    """

    networks: int = eqx.field(static=True, converter=plain)
    key: PRNGKeyArray = eqx.field(default_factory=lambda: jax.random.key(0))
    most_steps: int = eqx.field(static=True, converter=plain, default=20_000)

    expands = False

    def __check_init__(self):
        check_members("networks", self.networks, least=4)
        if self.networks % 2:
            raise ValueError(f"networks are trained in pairs: give an even number, got {self.networks}.")
        check_whole("most_steps", self.most_steps)
        check_key(self.key)

    def correct(
        self,
        problem: TrainingProblem,
        algorithm: SpectralAlgorithm,
        infinite: TrainedDistribution,
        *,
        ridge: float = 0.0,
        progress: Progress | None = None,
    ) -> Correction:
        pairs = self.pairs(problem, algorithm, infinite, ridge=ridge)
        covariance = _covariance(pairs, np.asarray(infinite.mean, dtype=float))
        as_array = lambda a: jnp.asarray(a, infinite.mean.dtype)
        return Correction(
            mean=as_array(pairs.mean.value) - infinite.mean,
            mean_error=as_array(pairs.mean.sem),
            covariance=as_array(covariance.value) - infinite.covariance,
            covariance_error=as_array(covariance.sem),
            samples=self.networks,
        )

    def pairs(
        self,
        problem: TrainingProblem,
        algorithm: SpectralAlgorithm,
        infinite: TrainedDistribution,
        *,
        ridge: float = 0.0,
    ) -> PairedEnsemble:
        """The trained networks themselves, with their partners: errors of whatever is computed from them."""
        descent = self._descent(problem, algorithm, infinite, ridge)
        return paired_ensemble(
            with_outputs(problem.net, problem.y.shape[1], problem.x_train.shape[1:]),
            self.key,
            self.networks // 2,
            problem.x_train,
            problem.y,
            problem.x_test,
            steps=int(descent.steps),
            learning_rate=float(descent.eta),
            ridge=ridge,
        )

    def _descent(
        self,
        problem: TrainingProblem,
        algorithm: SpectralAlgorithm,
        infinite: TrainedDistribution,
        ridge: float,
    ) -> GradientDescent:
        """The training that networks do: to the end as far as it can be seen."""
        descent = algorithm.descent(largest_eigenvalue(problem.train.ntk) + ridge)
        if not descent.converged:
            return descent
        if ridge == 0:
            return stop(problem, infinite, algorithm, ridge, self.networks, self.most_steps).algorithm
        relaxation = math.log1p(-float(descent.eta) * ridge)
        steps = math.ceil(math.log(_UNSETTLED) / relaxation)
        if steps > self.most_steps:
            warnings.warn(
                f"with ridge={ridge:.3g} training settles after {steps} steps; networks stop at most_steps="
                f"{self.most_steps}, where {math.exp(self.most_steps * relaxation):.2g} of the way is left.",
                stacklevel=4,
            )
        return descent.stopped(min(steps, self.most_steps))


def _covariance(pairs: PairedEnsemble, centre: Float[np.ndarray, "test out"]) -> Estimate:
    """Covariance of the trained outputs, averaged over outputs; the linearised partners take away noise."""
    trained = _squares(pairs.outputs - centre) - _squares(pairs.linear - centre)
    moved, still = sample_mean(trained), sample_mean(_squares(pairs.linear_draws - centre))
    shift = np.asarray(pairs.mean.value, dtype=float) - centre
    # The square of an estimated mean is too large by the variance of the estimate.
    noise = _of_mean((pairs.outputs - pairs.linear).mean(axis=1)) + _of_mean(pairs.linear_draws.mean(axis=1))
    off_centre = np.einsum("ao,bo->ab", shift, shift) / shift.shape[1] - noise
    return Estimate.of(moved.value + still.value - off_centre, np.hypot(moved.sem, still.sem), moved.dof)


def _squares(outputs: Float[np.ndarray, "draws 2 test out"]) -> Float[np.ndarray, "draws test test"]:
    """Products of outputs, averaged over both signs of the last layer and over output components."""
    outputs = np.asarray(outputs, dtype=float)
    return np.einsum("dsao,dsbo->dab", outputs, outputs) / (outputs.shape[1] * outputs.shape[3])


def _of_mean(samples: Float[np.ndarray, "draws test out"]) -> Float[np.ndarray, "test test"]:
    """Covariance of the average over draws, averaged over output components."""
    centred = np.asarray(samples - samples.mean(axis=0), dtype=float)
    draws, _, out = samples.shape
    return np.einsum("dao,dbo->ab", centred, centred) / (out * draws * (draws - 1))
