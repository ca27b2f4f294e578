"""Training in preactivations is the training of the network, and its averages are those of networks."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course._instruments.network_draws import over_networks
from finitewidth.course._lab.estimate import Estimate, sample_mean
from finitewidth.course.finite_width_after_training.networks import one_hidden_layer as shallow
from finitewidth.course.finite_width_after_training.networks.linearised_moments import (
    Descent,
    Frozen,
    OneLayer,
    linearised_mean,
    outer,
)
from finitewidth.course.finite_width_after_training.networks.tangent_draws import random_starts
from finitewidth.course.finite_width_after_training.networks.trained_moments import (
    Ensemble,
    trained_covariance,
    trained_mean,
)
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.networks.training.optimizers import anchored_descent
from tolerances import CLOSED_FORM, ROUNDING, assert_close


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(1)
    return rng.normal(size=(2, 3)), rng.normal(size=(2, 1)), rng.normal(size=(2, 3))


def four_errors(first, second):
    """Two independent estimates differ by less than four standard errors."""
    z = (first.value - second.value) / np.hypot(first.sem, second.sem)
    return np.abs(z).max() < 4


@pytest.mark.parametrize("ridge", [0.0, 0.7])
def test_one_draw_trains_like_a_network(ridge):
    rng = np.random.default_rng(0)
    x, y, x_test = rng.normal(size=(3, 5)), rng.normal(size=(3, 2)), rng.normal(size=(2, 5))
    net = fw.MLP((7,), "tanh", 0.2, 1.3, [0.3, 0.1], [0.8, 1.2], n_out=2)
    params = net.init(jax.random.key(1), 5)
    how = {"optimizer": anchored_descent(net, 5, 0.2, ridge)} if ridge else {"learning_rate": 0.2}
    end = fw.train(net, params, x, y, steps=6, **how).params
    every = np.concatenate([x, x_test])
    points = shallow.points_of(net, x, y, x_test)
    single = lambda a: jnp.asarray(a, jnp.float32)
    start = shallow.State(
        single(net.preactivations(params, jnp.asarray(every))[0])[None],
        single(params[1].weight)[None],
        single(params[1].bias)[None],
    )
    trained = shallow.outputs(points, shallow.trained(points, start, 0.2, 6, ridge))[0]
    assert_close(trained, np.asarray(net.apply(end, jnp.asarray(every))), ROUNDING["float32"])
    kernel = shallow.tangent_kernel(points, start)[0]
    empirical = fw.empirical_ntk(net, params, jnp.asarray(every), jnp.asarray(x))
    assert_close(kernel, np.asarray(empirical).transpose(2, 0, 3, 1), ROUNDING["float32"])
    # A network whose kernel stays as it is: phi = J^T u, of which every step loses the share eta r.
    z, u = np.asarray(shallow.outputs(points, start)[0], float), np.zeros((3, 2))
    for _ in range(6):
        now = z + np.einsum("piqj,qj->pi", np.asarray(kernel, float), u)
        u = (1 - 0.2 * ridge) * u - 0.2 * (now[:3] - y)
    linear = shallow.linear_descent(kernel, single(z), single(y), 0.2, 6, ridge)
    expected = z + np.einsum("piqj,qj->pi", np.asarray(kernel, float), u)
    assert_close(linear, expected, ROUNDING["float32"])


@pytest.mark.parametrize("activation", ["tanh", "gelu"])
def test_mean_kernels_are_those_of_infinite_width(activation, problem):
    """Direct integration against the kernels of the theory, exact at any width with one hidden layer."""
    x, _, x_test = problem
    every = np.concatenate([x, x_test])
    net = fw.MLP((3,), activation, [0.2, 0.1], [1.3, 0.9], [0.3, 0.1], [0.8, 1.2])
    mean, exact = shallow.mean_kernels(net, every), fw.kernels(net, every)
    assert_close(mean.output, np.asarray(exact.nngp), CLOSED_FORM)
    assert_close(mean.tangent, np.asarray(exact.ntk), CLOSED_FORM)


def test_drawn_starts_have_the_law_of_networks(problem):
    """Moments of outputs and kernels, for two outputs and unequal layers, and the descent with them."""
    net = fw.MLP((4, 5, 3), "gelu", [0.2, 0.3, 0.1, 0.2], 1.4, 0.1, [1.0, 0.7, 1.2, 0.9], n_out=2)
    x, draws = problem[0], 12_000
    z, H = over_networks(net, x, jax.random.key(0), draws, outputs_and_kernel)
    starts = random_starts(net, jnp.asarray(x), jax.random.key(1), draws)
    H, drawn = H.transpose(0, 3, 1, 4, 2).reshape(draws, -1), np.asarray(starts.kernel).reshape(draws, -1)
    assert four_errors(sample_mean(H), sample_mean(drawn))
    assert four_errors(*(sample_mean(k[:, :, None] * k[:, None]) for k in (H, drawn)))
    joint = ((products(z), H), (products(np.asarray(starts.outputs)), drawn))
    assert four_errors(*(sample_mean(zz[:, :, :, None] * k[:, None, None]) for zz, k in joint))

    y = np.array([[1.0, -0.5]])
    mean = linearised_mean(net, Descent.on(x[:1], y, x[1:], 0.1, 12), jax.random.key(2), draws)
    H = H.reshape(draws, 2, 2, 2, 2)
    values, vectors = np.linalg.eigh(H[:, 0, :, 0, :])
    learnt = (1 - (1 - 0.1 * values) ** 12) / values
    ends = np.einsum("toj,tjk,tk,tik,i->to", H[:, 1, :, 0], vectors, learnt, vectors, y[0])
    assert four_errors(mean, sample_mean(ends[:, None]))


def outputs_and_kernel(net, params, x):
    return net.apply(params, x), empirical_ntk(net, params, x)


def products(z):
    """Of outputs at two points, averaged over the outputs."""
    return np.einsum("tai,tbi->tab", z, z) / z.shape[2]


@pytest.mark.parametrize("hidden", [(12,), (8, 8)])
def test_moments_are_those_of_trained_networks(hidden, problem):
    """As many networks trained without partners have the same moments, and more noise."""
    net = fw.MLP(hidden, "tanh", 0.2, 1.3)
    ensemble = Ensemble(*problem, eta=0.1, steps=12, pairs=1500, linear=15_000)
    mean = trained_mean(net, ensemble, jax.random.key(0))
    covariance = trained_covariance(net, ensemble, jax.random.key(0))
    slow = fw.train_ensemble(net, jax.random.key(1), 3000, *problem, steps=12, learning_rate=0.1)
    outputs = np.asarray(slow.outputs)
    plain = sample_mean(outputs)
    assert four_errors(mean, plain)
    assert (mean.sem < plain.sem / 2).all()
    centred = (outputs - outputs.mean(axis=0))[..., 0]
    squares = sample_mean(centred[:, :, None] * centred[:, None])
    covariance = Estimate(*(part[:, 0, :, 0] for part in covariance))
    assert four_errors(covariance, squares)
    assert (covariance.sem < squares.sem).all()


def test_what_frozen_descent_leaves(problem):
    """With the mean kernel as its own, a linearised network ends where the frozen descent says."""
    x, y, x_test = problem
    net = fw.MLP((12,), "tanh", 0.2, 1.3)
    descent = Descent.on(x, y, x_test, 0.1, 12)
    frozen = Frozen.of(net, descent, jax.random.key(0))
    z = jax.random.normal(jax.random.key(1), (4, 1), jnp.float32)
    end = descent.end(frozen.kernel, z, descent.y)
    expected = np.asarray(frozen.end) + np.einsum("iaqj,qj->ia", frozen.left, z)
    assert_close(end, expected, ROUNDING["float32"])


def test_averaging_over_the_last_layer_by_hand(problem):
    """The part of first order in the kernel, with random last layers and with its average over them."""
    net = fw.MLP((8,), "gelu", 0.2, 1.3, n_out=2)
    x, _, x_test = problem
    descent = Descent.on(x, np.array([[1.0, -0.5], [0.3, 0.8]]), x_test[:1], 0.1, 12)
    frozen = Frozen.of(net, descent, jax.random.key(0))
    mean = OneLayer.of(net, descent, frozen)

    @jax.jit
    def both(key):
        starts = random_starts(net, descent.x, key, 10_000)
        response = jax.vmap(lambda change, z: frozen.response(descent, change, z))
        drawn = response(starts.kernel - frozen.kernel, starts.outputs)
        averaged = mean.averaged_first_order(net, frozen, starts.hidden)
        return outer(frozen.of_start(starts.outputs), drawn), averaged

    drawn, averaged = (sample_mean(np.asarray(part, float)) for part in both(jax.random.key(1)))
    assert (np.abs(drawn.value - averaged.value) < 4 * np.hypot(drawn.sem, averaged.sem)).all()
    assert (averaged.sem < drawn.sem / 2).all()
    assert np.abs(np.einsum("iaia->a", averaged.value)).min() > 4 * averaged.sem.max()
