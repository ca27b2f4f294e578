"""Projector weights against their limits: the end of training, and small steps."""

import numpy as np
import pytest

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.prediction.methods.first_order.projector_weights import projector_weights
from tolerances import assert_close

EIGENVALUES = np.array([0.2, 0.7, 1.3])
ETAS = (0.4 / 1.3, 1.0 / 1.3, 1.7 / 1.3)


@pytest.mark.parametrize(
    ("long", "end"),
    [
        (GradientDescent(ETAS[0], 2000), GradientDescent(ETAS[0])),
        (GradientDescent(ETAS[2], 2000), GradientDescent(ETAS[2])),
        (GradientFlow(400.0), GradientFlow()),
    ],
)
def test_long_training_reaches_the_end(long, end):
    weights, last = (projector_weights(EIGENVALUES, algorithm) for algorithm in (long, end))
    for name, limit in last._asdict().items():
        weight = getattr(weights, name)
        assert_close(weight[0], limit[0], scale=np.abs(limit).max() or 1.0)
        later = long.clock().rate * weight[1:]
        assert_close(
            later,
            limit / EIGENVALUES.reshape(-1, *[1] * (limit.ndim - 1)),
            scale=np.abs(limit).max() * 5 or 1.0,
        )


def test_small_steps_approach_the_flow():
    steps = 2**16
    descent = projector_weights(EIGENVALUES, GradientDescent(3.0 / steps, steps))
    flow = projector_weights(EIGENVALUES, GradientFlow(3.0))
    for name in ("h", "hh", "b2", "d3"):
        limit = getattr(flow, name)[0]
        assert_close(getattr(descent, name)[0], limit, 10 / steps)


def test_weights_need_a_step():
    with pytest.raises(ValueError, match="eta is still"):
        projector_weights(EIGENVALUES, GradientDescent(steps=5))
