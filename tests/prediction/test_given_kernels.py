import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from tolerances import SOLVE, assert_close

NET = fw.MLP((8, 8), "erf", C_b=0.1, C_W=1.4)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(5)
    x, xt = rng.normal(size=(7, 3)), rng.normal(size=(4, 3))
    return fw.TrainingProblem.of(NET, x, rng.normal(size=(7, 2)), xt)


def blocks(problem):
    return problem.train, problem.test_train, problem.test


@pytest.mark.parametrize(
    "algorithm",
    [None, fw.GradientFlow(0.7), fw.GradientDescent(0.05, 9), fw.BayesianInference(0.1)],
    ids=["end", "flow", "descent", "bayes"],
)
def test_the_kernels_of_a_network_give_its_own_law(problem, algorithm):
    law, own = (
        fw.predict_from_kernels(*blocks(problem), problem.y, algorithm),
        fw.predict(problem, algorithm=algorithm),
    )
    assert_close(law.mean, own.mean)
    assert_close(law.covariance, own.covariance)


def test_a_gaussian_process_by_hand(problem):
    """One covariance as an array, against dense linear algebra."""
    K, k, kk = (np.asarray(block.nngp) for block in blocks(problem))
    law = fw.predict_from_kernels(K, k, kk, problem.y, fw.BayesianInference(0.3))
    inverse = np.linalg.inv(K + 0.3 * np.eye(7))
    assert_close(law.mean, k @ inverse @ problem.y, SOLVE)
    assert_close(law.covariance, kk - k @ inverse @ k.T, SOLVE)


def test_one_real_network_linearised(problem):
    """From its kernel of all pairs of outputs: steps of its linear model in the weights say the same."""
    net = fw.MLP((8,), "tanh", n_out=2)
    params = net.init(jax.random.key(3), 3)
    x, xt, y = problem.x_train, problem.x_test, problem.y
    linear = fw.expand(net, params, 1)
    run = fw.train(linear, params, x, y, steps=20, learning_rate=0.02)
    law = fw.predict_from_kernels(
        fw.empirical_ntk(net, params, x),
        fw.empirical_ntk(net, params, xt, x),
        None,
        y,
        fw.GradientDescent(0.02, 20),
        initial=(net.apply(params, x), net.apply(params, xt)),
    )
    assert_close(law.mean, linear(run.params, xt), SOLVE)
    assert not law.covariance.any()


def test_a_ridge_is_added_to_the_diagonal(problem):
    law = fw.predict_from_kernels(*blocks(problem), problem.y, ridge=0.4)
    theta = np.asarray(problem.train.ntk) + 0.4 * np.eye(7)
    assert_close(law.mean, problem.test_train.ntk @ np.linalg.solve(theta, problem.y), SOLVE)


def test_wrong_arguments_get_a_sentence(problem):
    train, test_train, test = blocks(problem)
    y = problem.y
    with pytest.raises(ValueError, match=r"pass all three kernels as Kernels\(nngp, ntk\), or a start"):
        fw.predict_from_kernels(train.ntk, test_train.ntk, test.ntk, y)
    with pytest.raises(ValueError, match=r"test_train has shape \(4, 6\)"):
        fw.predict_from_kernels(train.nngp, test_train.nngp[:, :6], test.nngp, y, fw.BayesianInference(0.1))
    with pytest.raises(ValueError, match="train holds NaN"):
        fw.predict_from_kernels(train.nngp * jnp.nan, test_train, test, y, fw.BayesianInference(0.1))
    with pytest.raises(ValueError, match="initial has 1 and 2 outputs and y_train has 2"):
        fw.predict_from_kernels(train, test_train, None, y, initial=(y[:, :1], jnp.zeros((4, 2))))
    with pytest.raises(ValueError, match="test is None"):
        fw.predict_from_kernels(train, test_train, None, y, fw.BayesianInference(0.1))
