"""Importance weights: the theory against flow, a convex solver for the margin, and what is refused."""

import cvxpy as cp
import jax
import numpy as np
import optax
import pytest

from finitewidth import MLP
from finitewidth.course.importance_and_influence.networks.importance_weights import (
    logistic_flow,
    ridge_logistic,
    train_weighted,
)
from finitewidth.course.importance_and_influence.theory.importance_weights import importance_effect

X = np.array([[2.0, 1.0], [1.0, -1.0], [-3.0, 0.5], [4.0, 4.0], [-2.0, -0.3]])
Y = np.array([1, 1, -1, 1, -1])
W = np.array([20.0, 1.0, 3.0, 7.0, 0.5])


def test_the_direction_is_the_hard_margin_s():
    found, z = importance_effect(X, Y, W), X * Y[:, None]
    theta = cp.Variable(2)
    cp.Problem(cp.Minimize(cp.sum_squares(theta)), [z @ theta >= 1]).solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(found.direction, theta.value, atol=1e-5)
    np.testing.assert_allclose(z.T @ found.multipliers, found.direction, atol=1e-12)


def test_offset_and_difference_are_those_of_the_flow():
    found = importance_effect(X, Y, W)
    times = np.array([60.0, 90.0])
    ends = [logistic_flow(X, Y, w, times) for w in (W, np.ones(5))]
    np.testing.assert_allclose(ends[0][-1] - 90.0 * found.direction, found.offset, atol=1e-6)
    units = [end[-1] / np.linalg.norm(end[-1]) for end in ends]
    np.testing.assert_allclose(np.linalg.norm(units[0] - units[1]), found.difference(90.0), rtol=1e-6)


def test_the_ridge_s_difference_becomes_the_flow_s():
    found = importance_effect(X, Y, W)
    ends = [ridge_logistic(X, Y, w, 1e-300) for w in (W, np.ones(5))]
    units = [end / np.linalg.norm(end) for end in ends]
    measured = np.linalg.norm(units[0] - units[1])
    np.testing.assert_allclose(measured, found.ridge_difference(300 * np.log(10)), rtol=5e-3)


def test_a_network_that_interpolates_forgets_its_weights_and_a_penalty_keeps_them():
    rng = np.random.default_rng(5)
    x = rng.normal(size=(40, 2))
    y = np.where(x[:, 0] + 0.5 * x[:, 1] ** 2 > 0.3, 1, -1)
    x_test = rng.normal(size=(400, 2))
    weights = np.where(y > 0, 30.0, 1.0)
    net = MLP((32,), "tanh")
    params = net.init(jax.random.key(0), 2)
    how = {"steps": 600, "optimizer": optax.adam(0.02), "record_every": 20}
    free = train_weighted(net, params, x, y, weights, x_test, **how)
    held = train_weighted(net, params, x, y, weights, x_test, weight_decay=0.02, **how)
    assert (free.train_errors[-1] == 0).all()
    early = free.different_decisions[:5].max()
    assert free.different_decisions[-1] < 0.4 * early
    assert held.different_decisions[-1] > 2 * free.different_decisions[-1]


WRONG = {
    "not separable": (
        lambda: importance_effect(np.array([[1.0], [1.0]]), np.array([1, -1]), np.ones(2)),
        "the classes are not separable by a hyperplane: 2 points (rows 0, 1)",
    ),
    "no basis": (
        lambda: importance_effect(np.array([[1.0, 0.0], [3.0, 1.0]]), np.array([1, 1]), np.ones(2)),
        "the 1 support vectors are no basis of the 2 dimensions",
    ),
    "weights": (
        lambda: importance_effect(X, Y, -W),
        "weights must be 5 positive numbers, one per point, got shape (5,).",
    ),
    "labels": (lambda: importance_effect(X, np.arange(5), W), "y must be 5 labels -1 or 1"),
    "no ridge": (lambda: ridge_logistic(X, Y, W, 0.0), "the data are separable and there is no ridge"),
    "negative ridge": (
        lambda: ridge_logistic(X, Y, W, -1.0),
        "ridge must be 0 or at least 1e-300, got -1.0.",
    ),
    "times": (lambda: logistic_flow(X, Y, W, np.array([2.0, 1.0])), "log_times must be ascending"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_get_one_sentence(name):
    call, sentence = WRONG[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
