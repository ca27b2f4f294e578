"""Mean and covariance of trained networks, with noise of order 1/width per draw.

Each draw is trained with both signs of its last layer, beside the network linearised at its start: the
difference of the two has far less noise than the trained outputs, and the linearised network needs no
training, so that its own moments can be averaged over many more draws. No network is dropped.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._lab.estimate import Estimate, combined, sample_mean
from finitewidth.course.finite_width_after_training.networks import one_hidden_layer as shallow
from finitewidth.course.finite_width_after_training.networks.linearised_moments import (
    Descent,
    Frozen,
    linearised_mean,
    linearised_moments,
    outer,
)
from finitewidth.networks.training.control_variates import paired_ensemble


class Ensemble(NamedTuple):
    """Data, descent, and how many pairs to train and how many linearised networks to draw."""

    x: Float[np.ndarray, "train d"]
    y: Float[np.ndarray, "train out"]
    x_test: Float[np.ndarray, "test d"]
    eta: float
    steps: int
    pairs: int
    linear: int
    ridge: float = 0.0

    @property
    def descent(self) -> Descent:
        return Descent.on(self.x, self.y, self.x_test, self.eta, self.steps, self.ridge)


class Pairs(NamedTuple):
    """Outputs at the test points of trained and linearised networks, with both signs of the last layer."""

    trained: Float[np.ndarray, "pairs 2 test out"]
    linear: Float[np.ndarray, "pairs 2 test out"]


def trained_mean(net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Estimate:
    """Mean outputs (test, out)."""
    pair_key, linear_key = jax.random.split(key)
    pairs = trained_pairs(net, ensemble, pair_key)
    moved = sample_mean((pairs.trained - pairs.linear).mean(axis=1))
    still = linearised_mean(net, ensemble.descent, linear_key, ensemble.linear)
    return combined((1, 1), (moved, still))


def trained_covariance(net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Estimate:
    """Covariance (test, out, test, out) of the outputs."""
    pair_key, linear_key, frozen_key = jax.random.split(key, 3)
    descent = ensemble.descent
    frozen = Frozen.of(net, descent, frozen_key)
    pairs = trained_pairs(net, ensemble, pair_key)
    trained, linear = (ends - np.asarray(frozen.end, float) for ends in pairs)
    squares = [outer(trained[:, s], trained[:, s]) - outer(linear[:, s], linear[:, s]) for s in (0, 1)]
    moved = sample_mean((squares[0] + squares[1]) / 2)
    still = linearised_moments(net, descent, frozen, linear_key, ensemble.linear)
    # The mean is off the centre by 1/n, so that the noise of its square is of higher order.
    shift = trained.mean(axis=(0, 1))[None]
    return combined((1, 1), (moved, still)).plus(-outer(shift, shift)[0])


def trained_pairs(net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Pairs:
    """Trained networks and their linearised partners; one hidden layer trains fast in preactivations."""
    x, y, x_test, eta, steps, size, _, ridge = ensemble
    if dense_stack(net).depth > 2:
        data = (a.astype(np.float32) for a in (x, y, x_test))
        options = {"steps": steps, "learning_rate": eta, "ridge": ridge}
        run = paired_ensemble(net, key, size, *data, **options, linear_size=2)
        return Pairs(run.outputs.astype(float), run.linear.astype(float))
    points = shallow.points_of(net, x, y, x_test)

    def both_signs(start: shallow.State) -> tuple[Array, ...]:
        kernel = shallow.tangent_kernel(points, start)
        ends = []
        for s in (start, start.flipped()):
            ends.append(shallow.outputs(points, shallow.trained(points, s, eta, steps, ridge)))
            still = shallow.outputs(points, s)
            ends.append(shallow.linear_descent(kernel, still, points.y, eta, steps, ridge))
        return tuple(end[:, len(y) :] for end in ends)

    one, one_linear, other, other_linear = shallow.over_batches(points, key, size, both_signs)
    return Pairs(np.stack([one, other], axis=1), np.stack([one_linear, other_linear], axis=1))
