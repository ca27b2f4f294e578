import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import finitewidth as fw
from finitewidth.prediction.selection.model_comparison import (
    compare_models,
    evidence_gradient,
    maximise_evidence,
)
from tolerances import DIFFERENCES, PLAIN_DIFFERENCES, SOLVE, assert_close

NET = fw.MLP((16, 16), "erf", 0.3, 1.7)


@pytest.fixture
def data(rng):
    return rng.normal(size=(9, 3)), rng.normal(size=(9, 2)), rng.normal(size=(4, 3))


def test_posterior_is_the_conditional_of_the_joint_gaussian(data):
    x, y, x_test = data
    noise = 0.2
    joint = np.array(fw.kernels(NET, np.concatenate([x, x_test])).nngp)
    joint[:9, :9] += noise * np.eye(9)
    precision = np.linalg.inv(joint)
    law = fw.predict(NET, x, y, x_test, fw.BayesianInference(noise))
    covariance = np.linalg.inv(precision[9:, 9:])
    assert_close(law.covariance, covariance)
    assert_close(law.mean, -covariance @ precision[9:, :9] @ y)


def test_evidence_is_the_density_of_the_labels(data):
    x, y, _ = data
    covariance = np.asarray(fw.kernels(NET, x).nngp) + 0.1 * np.eye(9)
    density = sum(multivariate_normal(cov=covariance).logpdf(column) for column in y.T)
    assert_close(fw.evidence(NET, x, y, noise=0.1), density)


def test_evidence_is_a_product_of_predictions(data):
    """p(y_A, y_B) = p(y_A) p(y_B | y_A), with the predictive law of `predict`."""
    x, y, _ = data
    y, noise = y[:, 0], 0.1
    law = fw.predict(NET, x[:5], y[:5], x[5:], fw.BayesianInference(noise))
    step = multivariate_normal(law.mean[:, 0], law.covariance + noise * np.eye(4)).logpdf(y[5:])
    assert_close(fw.evidence(NET, x[:5], y[:5], noise) + step, fw.evidence(NET, x, y, noise))


def test_gradient_of_the_evidence(data):
    x, y, _ = data
    noise, h = 0.1, 1e-5
    gradient = evidence_gradient(NET, x, y, noise)
    assert_close(gradient.log_evidence, fw.evidence(NET, x, y, noise))

    def at(C_b, C_W, s):
        return float(fw.evidence(fw.MLP((16, 16), "erf", C_b, C_W), x, y, s))

    C_b, C_W = np.asarray(NET.C_b), np.asarray(NET.C_W)
    for layer, e in enumerate(h * np.eye(3)):
        assert_close(
            gradient.C_b[layer],
            (at(C_b + e, C_W, noise) - at(C_b - e, C_W, noise)) / (2 * h),
            PLAIN_DIFFERENCES,
        )
        assert_close(
            gradient.C_W[layer],
            (at(C_b, C_W + e, noise) - at(C_b, C_W - e, noise)) / (2 * h),
            PLAIN_DIFFERENCES,
        )
    assert_close(
        gradient.noise, (at(C_b, C_W, noise + h) - at(C_b, C_W, noise - h)) / (2 * h), 100 * DIFFERENCES
    )


def multivariate_evidence(net, x, y, noise) -> float:
    covariance = np.asarray(fw.kernels(net, x).nngp) + noise * np.eye(len(x))
    return float(multivariate_normal(cov=covariance).logpdf(np.transpose(y)).sum())


def test_probabilities_of_models_are_in_proportion_to_their_evidence(data):
    x, y, _ = data
    nets = {f"C_W = {C_W}": fw.MLP((16, 16), "erf", 0.3, C_W) for C_W in (1.5, 1.7, 2.2)}
    ranking = compare_models(nets, x, y, 0.3)
    density = np.exp([multivariate_evidence(nets[name], x, y, 0.3) for name in ranking.names])
    assert_close(ranking.probability, density / density.sum(), SOLVE)
    assert 0.01 < ranking.probability[-1] < ranking.probability[0] < 0.9


def test_evidence_finds_the_network_that_drew_the_data(rng):
    """Labels drawn from one prior: on average that prior has the largest evidence, in every pair."""
    x = rng.normal(size=(60, 2))
    priors = {
        "relu, shallow": fw.MLP((1,), "relu", 0.1, 2.0),
        "relu, deep": fw.MLP((1,) * 8, "relu", 0.1, 2.0),
        "sin": fw.MLP((1,), "sin", 0.1, 4.0),
    }
    noise, draws = 0.01, 8
    for name, net in priors.items():
        root = np.linalg.cholesky(np.asarray(fw.kernels(net, x).nngp) + noise * np.eye(60))
        y = root @ rng.normal(size=(60, draws))
        ranking = compare_models(priors, x, y, noise)
        assert ranking.best == name
        evidence = np.array([multivariate_evidence(priors[n], x, y, noise) for n in ranking.names])
        assert_close(ranking.log_evidence, evidence, SOLVE)
        assert all(a >= b for a, b in itertools.pairwise(ranking.log_evidence))


def test_tuning_recovers_the_noise_and_beats_its_start(rng):
    x = rng.normal(size=(80, 2))
    net = fw.MLP((1, 1), "relu", 0.3, 1.5)
    root = np.linalg.cholesky(np.asarray(fw.kernels(net, x).nngp) + 0.05 * np.eye(80))
    y = root @ rng.normal(size=(80, 6))
    start = fw.MLP((1, 1), "relu", 1.0, 3.0)
    tuned = maximise_evidence(start, x, y, noise=1.0)
    assert tuned.log_evidence > fw.evidence(net, x, y, 0.05) > fw.evidence(start, x, y, 1.0)
    assert_close(fw.evidence(tuned.net, x, y, tuned.noise), tuned.log_evidence)
    # 480 labels: the standard error of a log variance is about (2/480)^(1/2).
    assert abs(np.log(tuned.noise / 0.05)) < 4 * np.sqrt(2 / 480)


def test_training_the_last_layer_samples_the_posterior(data):
    C_b, C_W = 0.3, 1.7
    last_only = fw.MLP((16, 16), "erf", C_b, C_W, lambda_b=(0.0, 0.0, C_b), lambda_W=(0.0, 0.0, C_W))
    trained, posterior = (fw.predict(last_only, *data, a) for a in (None, fw.BayesianInference(0.0)))
    assert_close(trained.mean, posterior.mean, SOLVE)
    assert_close(trained.covariance, posterior.covariance, SOLVE)


def test_noise_of_the_posterior_is_the_ridge_of_the_trained(data):
    problem = fw.TrainingProblem.of(NET, *data)
    laws = {
        "ntk": fw.predict(NET, *data, ridge=0.4),
        "nngp": fw.predict(NET, *data, fw.BayesianInference(0.4)),
    }
    for kernel, law in laws.items():
        train, reach = (np.asarray(getattr(k, kernel)) for k in (problem.train, problem.test_train))
        assert_close(law.mean, reach @ np.linalg.solve(train + 0.4 * np.eye(9), data[1]), SOLVE)


def test_training_every_layer_does_not(data):
    trained, posterior = (fw.predict(NET, *data, a) for a in (None, fw.BayesianInference(0.0)))
    ratio = np.asarray(trained.std) / np.asarray(posterior.std)
    assert (ratio > 1).all(), "the posterior mean has the least error, and any other linear rule spreads more"
    assert float(jnp.abs(trained.mean - posterior.mean).max()) > 1e-3
