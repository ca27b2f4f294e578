r"""`KinkWindows`: the correction of order $n^{-1/2}$ of networks whose activation has kinks."""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth._base.checks import check_key, check_positive, check_whole, plain
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.algorithms.kernel_descent import smoother
from finitewidth.architecture.mlp import MLP
from finitewidth.prediction.law.correction import Correction
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.kink_range import KinkRange
from finitewidth.prediction.law.methods import Method, Progress
from finitewidth.prediction.methods.kinks.quadrature import MOST_POINTS, Coefficient, few_points, nothing
from finitewidth.prediction.methods.kinks.sampled import sampled_coefficient
from finitewidth.prediction.methods.kinks.setting import Setting
from finitewidth.prediction.methods.kinks.two_layers import two_layers
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.first_order.fluctuations import expandable


class KinkWindows(Method):
    """Neurons within n^(-1/2) of a kink at a training point: what training does to them.

    One training point has closed forms, two or three are integrated over, more are sampled.

    Parameters
    ----------
    relative_error
        Standard error to reach by sampling, relative to the coefficient, both as root mean squares over test
        points.
    most_samples
        Where to stop if that takes too long; the standard error says what was reached.
    key
        Randomness.
    """

    relative_error: float = eqx.field(static=True, converter=plain, default=0.05)
    most_samples: int = eqx.field(static=True, converter=plain, default=2048)
    key: PRNGKeyArray = eqx.field(default_factory=lambda: jax.random.key(0))

    in_roots = True

    def __check_init__(self):
        check_positive("relative_error", self.relative_error)
        check_whole("most_samples", self.most_samples)
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
        net = expandable(problem.net)
        found = self._coefficient(net, problem, algorithm, ridge, progress)
        n, dtype = net.hidden[-1], infinite.mean.dtype
        mean, covariance, mean_error, covariance_error = (
            jnp.asarray(part / math.sqrt(n), dtype) for part in found[:4]
        )
        one = found.mean.shape[1] == 1
        return Correction(
            mean=mean,
            mean_error=mean_error,
            covariance=covariance,
            covariance_error=covariance_error,
            output_covariance=covariance[:, None, :, None] if one else None,
            validity=KinkRange.of(net.hidden, np.asarray(infinite.mean), found.mean),
            samples=found.samples,
        )

    def _coefficient(
        self,
        net: MLP,
        problem: TrainingProblem,
        algorithm: SpectralAlgorithm,
        ridge: float,
        progress: Progress | None,
    ) -> Coefficient:
        train, out = problem.y.shape
        M = np.asarray(smoother(problem.train.ntk, problem.test_train.ntk, algorithm, ridge), float)
        if len(net.hidden) == 2 and train == 1 and out == 1:
            return two_layers(net, problem, algorithm, ridge, M)
        if len(net.hidden) > 1:
            raise ValueError(
                f'order="1/2" is derived for one hidden layer, and for two with one training point and '
                f"one output; net.hidden is {net.hidden}, with {train} training points and {out} outputs."
            )
        setting = Setting.of(net, problem)
        largest = float(np.linalg.eigvalsh(setting.outputs.Theta[:train, :train])[-1])
        if algorithm.resolved(largest + ridge).clock().end == 0:
            return nothing(len(M), out)
        if train <= MOST_POINTS and out == 1:
            return few_points(setting, algorithm, ridge, M)
        return sampled_coefficient(
            setting,
            algorithm,
            ridge,
            M,
            relative_error=self.relative_error,
            most_samples=self.most_samples,
            key=self.key,
            progress=progress,
        )
