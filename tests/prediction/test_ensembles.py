"""Predictions at infinite width against real networks, drawn and trained step by step."""

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.architecture.dense import Affine
from finitewidth.prediction.methods.infinite_width.trained import trained_distribution

STEPS = 40


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(5)
    return tuple(jnp.asarray(rng.normal(size=shape)) for shape in ((6, 3), (6, 1), (4, 3)))


def network(width: int, layers: int = 1) -> fw.MLP:
    return fw.MLP((width,) * layers, "erf", 0.2, 1.6, 0.5, 1.2)


def trained_networks(net: fw.MLP, data, eta: float, draws: int, key) -> tuple[np.ndarray, np.ndarray]:
    """Outputs at training and test points, before and after training: (draws, train + test)."""
    x, y, x_test = data
    points = jnp.concatenate([x, x_test])
    rates = tuple(
        Affine(net.lambda_W[l] / fan_in, net.lambda_b[l]) for l, fan_in in enumerate((3, *net.hidden))
    )

    def loss(params):
        return 0.5 * jnp.sum((net.apply(params, x) - y) ** 2)

    def step(params, _):
        moved = jax.tree.map(lambda p, rate, g: p - eta * rate * g, params, rates, jax.grad(loss)(params))
        return moved, None

    def one(key):
        start = net.init(key, 3)
        end, _ = jax.lax.scan(step, start, length=STEPS)
        return net.apply(start, points)[:, 0], net.apply(end, points)[:, 0]

    before, after = jax.jit(lambda keys: jax.lax.map(one, keys, batch_size=20))(jax.random.split(key, draws))
    return np.asarray(before), np.asarray(after)


def test_ensemble_of_width_1024_has_the_predicted_law(data):
    draws = 400
    net = network(1024)
    eta = float(1.2 / np.linalg.eigvalsh(fw.kernels(net, data[0]).ntk)[-1])
    _, after = trained_networks(net, data, eta, draws, jax.random.key(1))
    for points, outputs in ((data[0], after[:, :6]), (data[2], after[:, 6:])):
        law = fw.predict(net, data[0], data[1], points, fw.GradientDescent(eta, STEPS))
        mean, C = np.asarray(law.mean)[:, 0], np.asarray(law.covariance)
        z_mean = (outputs.mean(0) - mean) / (outputs.std(0, ddof=1) / math.sqrt(draws))
        assert np.abs(z_mean).max() < 4
        centred = outputs - mean
        sem = np.sqrt((np.outer(np.diag(C), np.diag(C)) + C**2) / draws)
        assert (np.abs(centred.T @ centred / draws - C) < 4 * sem).all()
        # The start alone would be rejected: training moved the law by many standard errors.
        assert np.abs(mean / (outputs.std(0) / math.sqrt(draws))).max() > 20


@pytest.mark.usefixtures("optimised")
def test_two_hidden_layers_of_width_1024_have_the_predicted_law(data):
    net = network(1024, 2)
    eta = float(1.2 / np.linalg.eigvalsh(fw.kernels(net, data[0]).ntk)[-1])
    law = fw.predict(net, *data, fw.GradientDescent(eta, STEPS // 2))
    check = fw.verify(law, 64, key=jax.random.key(8), dtype=jnp.float32)
    assert check.agrees, str(check)
    # Networks after half a step have another mean and another spread.
    other = fw.predict(net, *data, fw.GradientDescent(eta / 2, 1))
    assert not dataclasses.replace(check, predicted_mean=np.asarray(other.mean)).agrees
    assert not dataclasses.replace(check, predicted_std=np.asarray(other.std)).agrees


@pytest.mark.parametrize(("layers", "draws"), [(1, 60), (2, 12)])
def test_each_network_approaches_its_own_prediction_as_width_grows(data, layers, draws):
    """Started at one network's own initial function, the error falls as width^(-1/2)."""
    x, y, x_test = data
    eta = float(1.2 / np.linalg.eigvalsh(fw.kernels(network(1, layers), x).ntk)[-1])
    problem = fw.TrainingProblem.of(network(1, layers), x, y, x_test)
    gaps = []
    for width in (32, 128, 512):
        before, after = trained_networks(network(width, layers), data, eta, draws, jax.random.key(width))
        stacked = dataclasses.replace(problem, y=jnp.broadcast_to(y, (6, draws)))
        law = trained_distribution(
            stacked, fw.GradientDescent(eta, STEPS), initial=(before[:, :6].T, before[:, 6:].T)
        )
        gaps.append(np.sqrt(np.mean((after[:, 6:].T - np.asarray(law.mean)) ** 2)))
    slope = np.polyfit(np.log([32, 128, 512]), np.log(gaps), 1)[0]
    assert -0.65 < slope < -0.35
    assert gaps[-1] < 0.05
