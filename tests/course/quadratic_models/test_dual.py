import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course.quadratic_models.theory.dual import dual_descent, kernel_step, output_step
from finitewidth.networks.training.weight_space import train_weights
from quadratic import random_problem, slope, step_of
from tolerances import assert_close


def one_step(problem, model, W, eta):
    """A step of gradient descent on the weights of every output."""
    e = model(W, problem.train) - problem.y
    features = model.effective_features(W, problem.train)
    return W - eta * jnp.einsum("oaf,ao->of", features, e), e


def path(problem, model, eta, steps):
    """Weights before each of the steps and what they say at the test points, in one program."""
    step = lambda W, _: (one_step(problem, model, W, eta)[0], (W, model(W, problem.test)))
    return jax.lax.scan(step, problem.zeros(), length=steps)[1]


def test_both_steps_are_exact_with_dressed_meta_kernels(rng):
    problem, epsilon, eta = random_problem(1), 0.3, 0.2
    model, points = problem.model(epsilon), np.arange(len(problem.phi))
    W = jnp.asarray(rng.normal(size=(1, 14)))
    after, e = one_step(problem, model, W, eta)
    e = np.asarray(e)
    k = model.effective_kernel(W, points, problem.train)
    mu = model.meta_kernel(points, problem.train, problem.train, weights=W[0])
    assert_close(model(W, points) + output_step(k, mu, e, eta), model(after, points))

    mu_12 = model.meta_kernel(points, problem.train, problem.train, weights=W[0])
    mu_21 = model.meta_kernel(problem.train, points, problem.train, weights=W[0])
    g = (model.effective_features(W, problem.train)[0].T @ e)[:, 0]
    bend = problem.psi @ np.asarray(g)
    last = eta**2 * epsilon**2 * bend @ bend[: len(problem.y)].T
    assert_close(
        k + kernel_step(mu_12, mu_21, e, eta) + last, model.effective_kernel(after, points, problem.train)
    )


def test_what_the_trajectory_drops_is_of_second_order_at_all_times():
    problem = random_problem(0, outputs=2)
    eta = step_of(problem.parts()[0], 1.0)
    epsilons, errors, kernels = 0.01 * 0.5 ** np.arange(4), [], []
    for epsilon in epsilons:
        dual = dual_descent(*problem.parts(epsilon), problem.y, fw.GradientDescent(eta, 300))
        model = problem.model(epsilon)
        W, outputs = path(problem, model, eta, len(dual.test))
        errors.append(np.abs(dual.test - outputs).max())
        moved = model.effective_kernel(W[-1], problem.test, problem.train)
        kernels.append(np.abs(dual.kernel_test - moved).max())
    assert abs(slope(epsilons, errors) - 2) < 0.15
    assert abs(slope(epsilons, kernels) - 2) < 0.15
    assert dual.neglected.startswith("second order in epsilon")


def test_the_end_is_the_nearly_kernel_prediction():
    problem, epsilon = random_problem(0), 1e-5
    parts, eta = problem.parts(epsilon), step_of(problem.parts()[0], 1.3)
    dual = dual_descent(*parts, problem.y, fw.GradientDescent(eta, 2000))
    machine = fw.nearly_kernel(*parts, problem.y, fw.GradientDescent(eta))
    # First orders agree; both neglect second orders of their own.
    assert_close(dual.test[-1] - machine.linear, machine.correction, 1e-3)


def test_the_moved_kernel_is_reported():
    problem = random_problem(0)
    algorithm = fw.GradientDescent(step_of(problem.parts()[0], 1.0), 200)
    small, large = (dual_descent(*problem.parts(e), problem.y, algorithm).moved for e in (0.001, 0.002))
    assert_close(large / small, 2.0, 0.02)


def test_an_endless_run_is_refused():
    problem = random_problem(0)
    with pytest.raises(ValueError, match="the dual dynamics needs a number of steps"):
        dual_descent(*problem.parts(0.1), problem.y, fw.GradientDescent())


def test_weight_space_agrees_step_by_step_at_epsilon_zero():
    problem = random_problem(0)
    algorithm = fw.GradientDescent(step_of(problem.parts()[0], 1.0), 7)
    dual = dual_descent(*problem.parts(0.0), problem.y, algorithm)
    model = problem.model(0.0)
    end = train_weights(model.at(problem.train), problem.y, algorithm, problem.zeros())
    assert_close(dual.test[-1], model(end.weights, problem.test))
