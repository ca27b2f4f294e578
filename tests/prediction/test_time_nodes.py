"""Times that stand for sums over training: their products give back the projector weights."""

import numpy as np
import pytest

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.prediction.methods.first_order.projector_weights import projector_weights
from finitewidth.prediction.methods.first_order.sampled.time_nodes import time_strata

EIGENVALUES = np.geomspace(0.01, 2.0, 7)
TOLERANCE = 1e-4
# The third weight is a difference of two sums, each with the accuracy of the nodes.
LOSS = 15


def power(algorithm, time, odd):
    if isinstance(algorithm, GradientFlow):
        return np.exp(-np.outer(time, EIGENVALUES))
    x = 1 - algorithm.eta * EIGENVALUES
    return np.abs(x) ** time[:, None] * np.where(odd[:, None] > 0, np.sign(x), 1.0)


@pytest.mark.parametrize("algorithm", [GradientFlow(), GradientDescent(0.45), GradientDescent(0.8)])
def test_nodes_give_the_weights_at_the_end(algorithm):
    nodes = time_strata(EIGENVALUES, algorithm, nested=True, tolerance=TOLERANCE)
    X, w, t = power(algorithm, nodes.times, nodes.odd), nodes.weights, EIGENVALUES
    exact = projector_weights(t, algorithm)
    if isinstance(algorithm, GradientFlow):
        b2 = np.einsum("j,jk,jl->kl", w, X / t, X)
        d3 = -np.einsum("j,jk,jl,jm->klm", w, X / t, X, (1 - X) / t)
    else:
        eta, x = algorithm.eta, 1 - algorithm.eta * t
        b2 = eta * np.einsum("j,jk,jl->kl", w, X * x / t, X)
        d3 = -eta * np.einsum("j,jk,jl,jm->klm", w, X * x**2 / t, X * x, (1 - X * x) / t)
    assert np.abs(b2 - exact.b2[0]).max() <= 2 * TOLERANCE * np.abs(exact.b2).max()
    assert np.abs(d3 - exact.d3[0]).max() <= LOSS * TOLERANCE * np.abs(exact.d3).max()


@pytest.mark.parametrize("algorithm", [GradientFlow(3.0), GradientDescent(0.45, 25)])
def test_times_in_bins_are_right_on_average(algorithm):
    rng = np.random.default_rng(0)
    draws = 4000
    single, nested = (time_strata(EIGENVALUES, algorithm, nested=n) for n in (False, True))
    rate = 1.0 if isinstance(algorithm, GradientFlow) else algorithm.eta
    exact = projector_weights(EIGENVALUES, algorithm)
    times = single.draw(rng, np.repeat(np.arange(single.count), draws))
    X = power(algorithm, times.late, times.late_odd)
    b2 = rate * np.einsum("j,jk,jl->jkl", times.weight, X, (1 - X) / EIGENVALUES)
    _within_noise(b2, exact.b2[0], single.count)
    times = nested.draw(rng, np.repeat(np.arange(nested.count), draws))
    X, early = power(algorithm, times.late, times.late_odd), power(algorithm, times.early, times.early_odd)
    d3 = -(rate**2) * np.einsum("j,jk,jl,jm->jklm", times.weight, X, early, (1 - early) / EIGENVALUES)
    _within_noise(d3, exact.d3[0], nested.count)


def _within_noise(values, exact, strata):
    grouped = values.reshape(strata, -1, *exact.shape)
    mean = grouped.mean(axis=1).sum(axis=0)
    error = np.sqrt((grouped.var(axis=1) / grouped.shape[1]).sum(axis=0))
    assert (np.abs(mean - exact) <= 5 * error + 1e-12 * np.abs(exact).max()).all()


def test_a_singular_kernel_has_no_nodes():
    with pytest.raises(ValueError, match="close to singular"):
        time_strata(np.array([1e-14, 1.0]), GradientFlow(), nested=True)
