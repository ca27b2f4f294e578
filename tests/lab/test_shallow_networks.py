"""Training in preactivations is the training of the network, and its averages are those of networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.lab import shallow_networks as shallow
from finitewidth.lab.ensembles import over_networks
from finitewidth.lab.estimate import sample_mean
from finitewidth.lab.tangent_draws import linearised_mean, tangent_kernels
from finitewidth.lab.trained_moments import _Covariance, trained_covariance, trained_mean
from finitewidth.networks.tangent_kernel import empirical_ntk
from tolerances import CLOSED_FORM, ROUNDING, assert_close

DESCENT = {"eta": 0.1, "steps": 12}


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    return rng.normal(size=(2, 3)), rng.normal(size=(2, 1)), rng.normal(size=(2, 3))


def four_errors(first, second):
    """Two independent estimates differ by less than four standard errors."""
    z = (first.value - second.value) / np.hypot(first.sem, second.sem)
    return np.abs(z).max() < 4


def test_one_draw_trains_like_a_network():
    rng = np.random.default_rng(0)
    x, y, x_test = rng.normal(size=(3, 5)), rng.normal(size=(3, 2)), rng.normal(size=(2, 5))
    net = fw.MLP((7,), "tanh", 0.2, 1.3, [0.3, 0.1], [0.8, 1.2], n_out=2)
    params = net.init(jax.random.key(1), 5)
    end = fw.train(net, params, x, y, steps=6, learning_rate=0.2).params
    every = np.concatenate([x, x_test])
    points = shallow.points_of(net, x, y, x_test)
    single = lambda a: jnp.asarray(a, jnp.float32)
    start = shallow.State(
        single(net.preactivations(params, jnp.asarray(every))[0])[None],
        single(params[1].weight)[None],
        single(params[1].bias)[None],
    )
    trained = shallow.outputs(net, shallow.trained(net, points, start, 0.2, 6))[0]
    assert_close(trained, np.asarray(net.apply(end, jnp.asarray(every))), ROUNDING["float32"])
    kernel = shallow.tangent_kernel(net, points, start)[0]
    empirical = fw.empirical_ntk(net, params, jnp.asarray(every), jnp.asarray(x))
    assert_close(kernel, np.asarray(empirical).transpose(2, 0, 3, 1), ROUNDING["float32"])


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_mean_kernels_are_those_of_infinite_width(activation, problem):
    """Direct integration against the kernels of the theory, exact at any width with one hidden layer."""
    x, _, x_test = problem
    every = np.concatenate([x, x_test])
    net = fw.MLP((3,), activation, [0.2, 0.1], [1.3, 0.9], [0.3, 0.1], [0.8, 1.2])
    mean, exact = shallow.mean_kernels(net, every), fw.kernels(net, every)
    assert_close(mean.output, np.asarray(exact.nngp), CLOSED_FORM)
    assert_close(mean.tangent, np.asarray(exact.ntk), CLOSED_FORM)


def test_drawn_tangent_kernels_have_the_law_of_networks(problem):
    """Moments of all entries, for two outputs and unequal layers, and the descent with such kernels."""
    net = fw.MLP((4, 5, 3), "gelu", [0.2, 0.3, 0.1, 0.2], 1.4, 0.1, [1.0, 0.7, 1.2, 0.9], n_out=2)
    x, draws = problem[0], 12_000
    real = over_networks(net, x, jax.random.key(0), draws, empirical_ntk).transpose(0, 3, 1, 4, 2)
    drawn = np.asarray(tangent_kernels(net, jnp.asarray(x), jax.random.key(1), draws))
    flat = [kernels.reshape(draws, -1) for kernels in (real, drawn)]
    assert four_errors(*(sample_mean(k) for k in flat))
    assert four_errors(*(sample_mean(k[:, :, None] * k[:, None]) for k in flat))

    y = np.array([[1.0, -0.5]])
    mean = linearised_mean(net, x[:1], y, x[1:], jax.random.key(2), **DESCENT, draws=draws)
    values, vectors = np.linalg.eigh(real[:, 0, :, 0, :])
    learnt = (1 - (1 - DESCENT["eta"] * values) ** DESCENT["steps"]) / values
    ends = np.einsum("toj,tjk,tk,tik,i->to", real[:, 1, :, 0], vectors, learnt, vectors, y[0])
    assert four_errors(mean, sample_mean(ends[:, None]))


def test_moments_are_those_of_trained_networks(problem):
    net = fw.MLP((12,), "tanh", 0.2, 1.3)
    sizes = {**DESCENT, "pairs": 3000, "linear": 6000}
    mean = trained_mean(net, *problem, jax.random.key(0), **sizes)
    covariance = trained_covariance(net, *problem, jax.random.key(0), **sizes)
    slow = fw.train_ensemble(net, jax.random.key(1), 6000, *problem, steps=12, learning_rate=0.1)
    outputs = np.asarray(slow.outputs)[:, :, 0]
    assert four_errors(type(mean)(mean.value[:, 0], mean.sem[:, 0]), sample_mean(outputs))
    centred = outputs - outputs.mean(axis=0)
    products = sample_mean(centred[:, :, None] * centred[:, None])
    assert four_errors(covariance, products)
    assert covariance.sem.max() < products.sem.min() / 3


def test_averaging_over_the_last_layer_by_hand(problem):
    """The part of first order in the kernel, with random last layers and with its average over them."""
    net = fw.MLP((8,), "gelu", 0.2, 1.3)
    instrument = _Covariance(net, *problem, 0.1, 12)

    def drawn(start):
        z = shallow.outputs(net, start)[..., 0]
        kernel = shallow.tangent_kernel(net, instrument.points, start)[:, :, 0, :, 0]
        response = jax.vmap(instrument._response)(kernel - instrument.H, z)
        return ((z @ instrument.left.T)[:, :, None] * response[:, None],)

    averaged = lambda start: (instrument.averaged_first_order(start),)
    estimates = [
        sample_mean(shallow.over_batches(net, instrument.points, jax.random.key(k), 20_000, statistic)[0])
        for k, statistic in enumerate((drawn, averaged))
    ]
    assert four_errors(*estimates)
    assert np.abs(estimates[1].value / estimates[1].sem).min() > 4
