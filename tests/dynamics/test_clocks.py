"""Chains and projector weights against sums over all histories, limits and high precision."""

import itertools
import math

import mpmath
import numpy as np
import pytest

from finitewidth.dynamics.algorithms import GradientDescent, GradientFlow
from finitewidth.dynamics.clocks import Flow, Steps, projector_weights
from tolerances import assert_close

EIGENVALUES = np.array([0.2, 0.7, 1.3])
ETAS = (0.4 / 1.3, 1.0 / 1.3, 1.7 / 1.3)


def complete_homogeneous(u, degree):
    """Sum over all monomials of one degree."""
    return sum(
        math.prod(x**j for x, j in zip(u, powers, strict=True))
        for powers in itertools.product(range(degree + 1), repeat=len(u))
        if sum(powers) == degree
    )


@pytest.mark.parametrize("steps", [0, 1, 2, 3, 6, 9])
@pytest.mark.parametrize("eta", ETAS)
def test_chain_counts_every_history(eta, steps):
    t = [np.array([v]) for v in EIGENVALUES]
    nodes = [(), (t[0],), (t[1], t[2]), (t[0], t[1], t[2])]
    u = [math.prod(1 - eta * float(v[0]) for v in node) for node in nodes]
    expected = complete_homogeneous(u, steps - 3) if steps >= 3 else 0.0
    assert_close(Steps(eta, steps).chain(nodes), np.array([expected]), scale=max(abs(expected), 1.0))


@pytest.mark.parametrize("steps", [10, 10**4, 10**9])
def test_chain_keeps_its_digits_where_nodes_coincide(steps):
    rates = [0.0, 1e-9, 1e-9, 3e-5, 0.4]
    with mpmath.workdps(60):
        matrix = mpmath.zeros(5)
        for i, r in enumerate(rates):
            matrix[i, i] = 1 - mpmath.mpf(r)
            if i < 4:
                matrix[i, i + 1] = 1
        expected = float((matrix**steps)[0, 4])
    nodes = [(np.array([r]),) for r in rates]
    assert_close(Steps(1.0, steps).chain(nodes), np.array([expected]))


@pytest.mark.parametrize("time", [0.0, 1e-3, 2.0, 1e4])
def test_flow_chain_is_an_entry_of_a_matrix_exponential(time):
    rates = [0.0, 0.3, 0.3, 1.1, 2.0]
    with mpmath.workdps(60):
        matrix = mpmath.zeros(5)
        for i, r in enumerate(rates):
            matrix[i, i] = -mpmath.mpf(r)
            if i < 4:
                matrix[i, i + 1] = 1
        expected = float(mpmath.expm(matrix * time, method="taylor")[0, 4])
    assert_close(Flow(time).chain([(np.array([r]),) for r in rates]), np.array([expected]))


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
        later = algorithm_rate(long) * weight[1:]
        assert_close(
            later,
            limit / EIGENVALUES.reshape(-1, *[1] * (limit.ndim - 1)),
            scale=np.abs(limit).max() * 5 or 1.0,
        )


def algorithm_rate(algorithm):
    return algorithm.eta if isinstance(algorithm, GradientDescent) else 1.0


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
