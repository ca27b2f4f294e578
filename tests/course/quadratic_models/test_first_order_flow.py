import math

import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course.quadratic_models.theory.first_order_flow import FirstOrderFlow
from finitewidth.networks.training.weight_space import train_weights
from quadratic import random_problem
from tolerances import assert_close


@pytest.fixture(scope="module")
def problem():
    return random_problem(0, outputs=2)


@pytest.fixture(scope="module")
def flow(problem):
    return FirstOrderFlow.of(problem.model(1.0).at(problem.train), problem.y)


@pytest.mark.parametrize("time", [0.3, 3.0, 30.0, math.inf])
def test_the_coefficient_of_epsilon_is_that_of_the_integrated_flow(problem, flow, time):
    """Central differences in epsilon of a flow integrated without any expansion."""
    weights = {
        e: train_weights(
            problem.model(e).at(problem.train), problem.y, fw.GradientFlow(time), problem.zeros()
        ).weights
        for e in (-2e-3, -1e-3, 0.0, 1e-3, 2e-3)
    }
    wide, narrow = ((weights[e] - weights[-e]) / (2 * e) for e in (2e-3, 1e-3))
    found = flow.at(time)
    assert_close(found.fixed, weights[0.0], 1e-9)
    assert_close(found.interacting, (4 * narrow - wide) / 3, 1e-6)


def test_the_part_outside_is_orthogonal_to_the_features_and_the_other_is_not(problem, flow):
    phi = problem.phi[problem.train]
    found = flow.at(2.0)
    assert_close(found.outside @ phi.T, np.zeros((2, 6)), scale=float(jnp.abs(found.outside).max()))
    back = phi.T @ np.linalg.solve(phi @ phi.T, phi @ np.asarray(found.inside).T)
    assert_close(back.T, found.inside, 1e-11)


def test_the_end_predicts_what_the_projectors_of_the_flow_predict(problem, flow):
    epsilon = 0.01
    found, model = flow.at(math.inf), problem.model(epsilon)
    machine = fw.nearly_kernel(*problem.parts(epsilon), problem.y, fw.GradientFlow())
    phi, psi = problem.phi[problem.test], problem.psi[problem.test]
    bend = 0.5 * epsilon * jnp.einsum("oj,njk,ok->no", found.fixed, psi, found.fixed)
    assert_close(phi @ found.fixed.T, machine.linear, 1e-11)
    assert_close(epsilon * phi @ found.interacting.T + bend, machine.correction, 1e-10)
    features = flow.effective_features(model.at(problem.test), math.inf)
    assert_close(features, model.effective_features(found.fixed, problem.test))


def test_training_points_end_at_their_labels(problem, flow):
    found = flow.at(math.inf)
    phi, psi = problem.phi[problem.train], problem.psi[problem.train]
    bend = 0.5 * jnp.einsum("oj,njk,ok->no", found.fixed, psi, found.fixed)
    assert_close(phi @ found.inside.T, -bend, 1e-11)


def test_equal_eigenvalues_are_no_trouble():
    phi = np.eye(8)[:5] * 1.3
    base = random_problem(0, train=3, test=2, features=8)
    problem = base._replace(phi=phi)
    flow = FirstOrderFlow.of(problem.model(1.0).at(problem.train), problem.y)
    weights = {
        e: train_weights(
            problem.model(e).at(problem.train), problem.y, fw.GradientFlow(0.9), problem.zeros()
        ).weights
        for e in (-1e-3, 1e-3)
    }
    assert_close(flow.at(0.9).interacting, (weights[1e-3] - weights[-1e-3]) / 2e-3, 1e-5)


def test_nothing_has_moved_at_time_zero(flow):
    assert not any(np.asarray(part).any() for part in flow.at(0.0))


def test_bad_input(problem, flow):
    with pytest.raises(ValueError, match="time must be zero or more, got -1"):
        flow.at(-1.0)
    with pytest.raises(ValueError, match="the linear model has no first order in epsilon"):
        FirstOrderFlow.of(fw.LinearModel(lambda i: problem.phi[i]).at(problem.train), problem.y)
