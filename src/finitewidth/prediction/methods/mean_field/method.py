"""`MeanField`: the law at any width of one hidden layer, trained to the end with a ridge."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth._base.checks import check_key, check_whole, plain
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.mlp import MLP
from finitewidth.expectations.four_factors.derivative_moments import is_smooth
from finitewidth.prediction.law.correction import Correction
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.methods import Method, Progress
from finitewidth.prediction.methods.mean_field.equations import Kernels, trained_moments
from finitewidth.prediction.methods.mean_field.neurons import Neuron, Population
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.first_order.fluctuations import expandable


class MeanField(Method):
    """Whole neurons in the field of the trained network: one hidden layer, one output, a ridge.

    Every sampled neuron moves to its resting point in the field of all the others, which is found
    self-consistently. To order 1/width this is the expansion; beyond, it keeps the whole motion of each
    neuron, where the expansion stops at its third order.

    Parameters
    ----------
    neurons
        How many neurons to sample, rounded up to 64 times a power of two.
    key
        Randomness.
    """

    neurons: int = eqx.field(static=True, converter=plain, default=16_384)
    key: PRNGKeyArray = eqx.field(default_factory=lambda: jax.random.key(0))

    expands = False

    def __check_init__(self):
        check_whole("neurons", self.neurons, least=64)
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
        net = _described(problem, algorithm, ridge)
        x = np.concatenate([problem.x_train, problem.x_test]).astype(float)
        train = len(problem.y)
        start = Population.draw(net, x, train, self.neurons, self.key)
        y = np.asarray(problem.y[:, 0], dtype=float)
        last = net.layers[-1]
        kernels = Kernels(_whole(problem, "nngp"), _whole(problem, "ntk"), last.C_b, last.lambda_b)
        found = trained_moments(Neuron.of(net, x), start, kernels, y, ridge, net.hidden[0])
        as_array = lambda a: jnp.asarray(a, infinite.mean.dtype)
        return Correction(
            mean=as_array(found.mean)[:, None] - infinite.mean,
            mean_error=as_array(found.mean_error)[:, None],
            covariance=as_array(found.covariance) - infinite.covariance,
            covariance_error=as_array(found.covariance_error),
            samples=start.readout.size,
        )


def _described(problem: TrainingProblem, algorithm: SpectralAlgorithm, ridge: float) -> MLP:
    """The network as dense layers; one sentence where the mean field is not known."""
    net, outputs = expandable(problem.net), problem.y.shape[1]
    if len(net.hidden) != 1:
        raise ValueError(
            f"MeanField describes one hidden layer, and this network has {len(net.hidden)}: use order=1 or "
            "TrainedNetworks(k)."
        )
    if outputs != 1:
        raise ValueError(
            f"MeanField describes one output, and y_train has {outputs}: predict one column at a time, "
            "with a network of its own, or use TrainedNetworks(k)."
        )
    if not is_smooth(net.activation.function):
        raise ValueError(
            f"MeanField needs a smooth activation, and {net.activation.name!r} has a kink, at which neurons "
            "get stuck: use TrainedNetworks(k)."
        )
    if not (algorithm.converged and ridge > 0):
        raise ValueError(
            f"MeanField describes the end of training with a ridge, got ridge={ridge:g} and {algorithm}: "
            "pass ridge > 0 and no number of steps, or use TrainedNetworks(k)."
        )
    return net


def _whole(problem: TrainingProblem, name: str) -> np.ndarray:
    """A kernel of all points, training points first."""
    train, across, test = (np.asarray(getattr(k, name), dtype=float) for k in problem.kernels or ())
    return np.block([[train, across.T], [across, test]])
