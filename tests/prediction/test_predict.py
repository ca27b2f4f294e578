import math
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.architecture.dense import Affine
from finitewidth.prediction.methods.infinite_width.trained import trained_distribution
from finitewidth.prediction.problem.training_problem import ProblemKernels
from tolerances import LIMIT, SERIES, SINGLE_SOLVE, SOLVE, assert_close

NET = fw.MLP((64, 64), "gelu", 0.1, 1.8, 0.7, 1.3)


@pytest.fixture
def data(rng):
    return rng.normal(size=(8, 3)), rng.normal(size=(8, 2)), rng.normal(size=(5, 3))


@pytest.mark.parametrize("steps", [1, 50])
def test_a_linearised_network_trained_step_by_step(data, steps):
    """The closed form with the tangent kernel of one drawn network, against steps on its parameters."""
    x, y, x_test = data
    y = y[:, :1]
    net = fw.MLP((40, 40), "tanh", 0.1, 1.5, 0.7, 1.3)
    params = net.init(jax.random.key(1), 3)
    start, tangent = jax.linearize(lambda p: net.apply(p, jnp.concatenate([x, x_test])), params)
    tangent = jax.jit(tangent)
    pull_back = jax.jit(jax.linear_transpose(tangent, params))
    widths = (3, 40, 40)
    rates = tuple(Affine(net.lambda_W[l] / widths[l], net.lambda_b[l]) for l in range(net.depth))

    def preconditioned(cotangent):
        return jax.tree.map(jnp.multiply, rates, pull_back(cotangent)[0])

    kernel = jax.vmap(lambda e: tangent(preconditioned(e[:, None]))[:, 0])(jnp.eye(13))
    eta = 1.5 / np.linalg.eigvalsh(kernel[:8, :8])[-1]
    moved = jax.tree.map(jnp.zeros_like, params)
    for _ in range(steps):
        error = jnp.zeros((13, 1)).at[:8].set((start + tangent(moved))[:8] - y)
        moved = jax.tree.map(lambda m, g: m - eta * g, moved, preconditioned(error))
    trained = (start + tangent(moved))[8:]
    parts = (fw.Kernels(part, part) for part in (kernel[:8, :8], kernel[8:, :8], kernel[8:, 8:]))
    empirical = fw.TrainingProblem(NET, *map(jnp.asarray, (x, y, x_test)), ProblemKernels(*parts))
    law = trained_distribution(
        empirical, fw.GradientDescent(float(eta), steps), initial=(start[:8], start[8:])
    )
    assert_close(law.mean, trained, SOLVE)


def test_kernels_of_few_points_are_blocks_of_one_matrix(data, monkeypatch):
    x, y, x_test = data
    found = fw.TrainingProblem.of(NET, x, y, x_test).kernels
    monkeypatch.setattr("finitewidth.prediction.problem.training_problem._FEW", 12)
    apart = fw.TrainingProblem.of(NET, x, y, x_test).kernels
    for kernel, expected in zip(jax.tree.leaves(found), jax.tree.leaves(apart), strict=True):
        assert_close(kernel, expected, SERIES)


def test_law_is_that_of_the_iterated_recursion(data):
    """z(t+1) = z(t) - eta Theta (z_A(t) - y), kept as a linear map of the random start."""
    x, y, x_test = data
    joint = fw.kernels(NET, np.concatenate([x, x_test]))
    eta, steps = 1.2 / np.linalg.eigvalsh(joint.ntk[:8, :8])[-1], 7
    start, offset = np.eye(13), np.zeros((13, 2))
    step = np.asarray(eta * joint.ntk[:, :8])
    for _ in range(steps):
        start, offset = start - step @ start[:8], offset - step @ (offset[:8] - y)
    law = fw.predict(NET, x, y, x_test, fw.GradientDescent(float(eta), steps))
    assert_close(law.mean, offset[8:])
    assert_close(law.covariance, (start @ joint.nngp @ start.T)[8:, 8:])


def test_samples_have_the_law_and_independent_outputs(data):
    draws = 20_000
    law = fw.predict(NET, *data, fw.GradientFlow(0.2))
    samples = np.asarray(law.sample(jax.random.key(0), draws)) - np.asarray(law.mean)
    assert samples.shape == (draws, 5, 2)
    C = np.asarray(law.covariance)
    variances = np.outer(np.diag(C), np.diag(C))
    assert (np.abs(samples.mean(0)) < 4 * np.asarray(law.std)[:, None] / math.sqrt(draws)).all()
    within = samples[..., 1].T @ samples[..., 1] / draws
    assert (np.abs(within - C) < 4 * np.sqrt((variances + C**2) / draws)).all()
    between = samples[..., 0].T @ samples[..., 1] / draws
    assert (np.abs(between) < 4 * np.sqrt(variances / draws)).all()


def test_no_training_leaves_the_prior(data):
    x, y, x_test = data
    for algorithm in (fw.GradientDescent(0.01, 0), fw.GradientFlow(0.0)):
        law = fw.predict(NET, x, y, x_test, algorithm)
        assert_close(law.covariance, fw.kernels(NET, x_test).nngp)
        assert float(jnp.abs(law.mean).max()) == 0


def test_training_points_are_learnt(data):
    x, y, _ = data
    law = fw.predict(NET, x, y, x[2:4])
    assert_close(law.mean, y[2:4], SOLVE)
    assert float(law.std.max()) < 1e-5


def test_outputs_are_predicted_one_by_one(data):
    x, y, x_test = data
    both = fw.predict(NET, x, y, x_test)
    for i in (0, 1):
        one = fw.predict(NET, x, y[:, i], x_test)
        assert_close(one.mean[:, 0], both.mean[:, i])
        assert_close(one.covariance, both.covariance)


def test_a_given_start_is_learnt_from_there(data):
    x, y, x_test = data
    teacher = lambda points: jnp.stack([jnp.sin(points[:, 0]), points[:, 1] ** 2], axis=1)
    untouched = fw.predict(NET, x, teacher(jnp.asarray(x)), x_test, initial=teacher)
    assert_close(untouched.mean, teacher(jnp.asarray(x_test)))
    law = fw.predict(NET, x, y, x_test, initial=teacher)
    from_zero = fw.predict(NET, x, y - np.asarray(teacher(jnp.asarray(x))), x_test)
    assert_close(law.mean, teacher(jnp.asarray(x_test)) + from_zero.mean)
    assert float(law.std.max()) == 0
    as_arrays = fw.predict(NET, x, y, x_test, initial=(teacher(jnp.asarray(x)), teacher(jnp.asarray(x_test))))
    assert_close(as_arrays.mean, law.mean)


def test_the_law_is_the_average_over_given_starts(data):
    """Condition on the start, average over its prior: the law of total variance."""
    x, y, x_test = data
    y = y[:, :1]
    algorithm = fw.GradientFlow(0.3)
    root = np.linalg.cholesky(fw.kernels(NET, np.concatenate([x, x_test])).nngp)
    law = fw.predict(NET, x, y, x_test, algorithm)
    parts = [
        fw.predict(NET, x, y, x_test, algorithm, initial=(c[:8], c[8:])).mean - law.mean
        for c in root.T[:, :, None]
    ]
    assert_close(sum(p @ p.T for p in parts), law.covariance)


def test_ridge_shrinks_towards_the_start(data):
    x, y, x_test = data
    problem = fw.TrainingProblem.of(NET, x, y, x_test)
    law = fw.predict(NET, x, y, x_test, ridge=0.4)
    M = np.asarray(problem.test_train.ntk) @ np.linalg.inv(problem.train.ntk + 0.4 * np.eye(8))
    assert_close(law.mean, M @ y)
    K = problem.train.nngp, problem.test_train.nngp, problem.test.nngp
    assert_close(law.covariance, K[2] - M @ K[1].T - K[1] @ M.T + M @ K[0] @ M.T)
    frozen = fw.predict(NET, x, y, x_test, ridge=1e9)
    assert_close(frozen.covariance, K[2], LIMIT)


def test_single_precision_stays_so(data):
    x, y, x_test = (a.astype(np.float32) for a in data)
    for algorithm in (None, fw.GradientFlow(1.0), fw.BayesianInference(0.1)):
        law = fw.predict(NET, x, y, x_test, algorithm)
        double = fw.predict(NET, *data, algorithm)
        assert law.mean.dtype == law.covariance.dtype == np.float32
        assert_close(law.mean, double.mean, SINGLE_SOLVE)
        assert_close(law.covariance, double.covariance, SINGLE_SOLVE)


def test_variance_falls_at_training_points_while_the_loss_does(data):
    x, y, _ = data
    laws = [fw.predict(NET, x, y, x, fw.GradientFlow(t)) for t in (0.0, 0.1, 1.0, 10.0)]
    losses = [float(law.expected_loss(jnp.asarray(y))) for law in laws]
    assert all(a > b for a, b in pairwise(losses))


def test_expected_loss_is_that_of_samples(data):
    x, y, x_test = data
    law = fw.predict(NET, x, y, x_test)
    target = jnp.ones((5, 2))
    draws = 0.5 * jnp.sum((law.sample(jax.random.key(3), 20_000) - target) ** 2, axis=(1, 2))
    z = (draws.mean() - law.expected_loss(target)) / (draws.std() / math.sqrt(20_000))
    assert abs(float(z)) < 4


@pytest.mark.parametrize(
    "asked", [{"ridge": 0.1}, {"algorithm": fw.GradientFlow(0.3)}, {"algorithm": fw.BayesianInference(0.1)}]
)
def test_a_problem_has_the_law_of_its_network_and_data(data, asked):
    problem = fw.TrainingProblem.of(NET, *data)
    law, same = fw.predict(NET, *data, **asked), fw.predict(problem, **asked)
    assert (law.mean == same.mean).all()
    assert (law.covariance == same.covariance).all()
    assert same.provenance.problem is problem


def test_other_test_points_keep_the_training_kernels(data, rng):
    problem = fw.TrainingProblem.of(NET, *data)
    x_test = jnp.asarray(rng.normal(size=(3, 3)))
    moved, anew = problem.at(x_test), fw.TrainingProblem.of(NET, *data[:2], x_test)
    assert moved.train is problem.train
    assert all(
        (a == b).all()
        for a, b in zip(moved.test + moved.test_train, anew.test + anew.test_train, strict=True)
    )
