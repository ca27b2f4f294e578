import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.architecture.models.tangent_model import TangentMetaKernel
from finitewidth.networks.training.weight_space import train_weights
from quadratic import random_problem, slope
from tolerances import assert_close


@pytest.fixture(scope="module")
def net():
    return fw.MLP((6, 5), "tanh", C_b=0.1, C_W=1.3, lambda_W=0.7, n_out=2)


@pytest.fixture(scope="module")
def params(net):
    return net.init(jax.random.key(0), 3)


@pytest.fixture(scope="module")
def x():
    return jax.random.normal(jax.random.key(1), (4, 3))


def tangent(net, params, **options):
    return fw.TangentModel(net.apply, params, rates=net.learning_rates(3), **options)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_agrees_with_the_expansion_of_the_experiments(net, params, x, order):
    model = tangent(net, params, order=order)
    weights = 0.3 * jax.random.normal(jax.random.key(2), model.zeros().shape)
    assert_close(model(weights, x), fw.expand(net, params, order)(model.params_of(weights), x))


def test_kernel_and_meta_kernel_are_the_networks_own(net, params, x):
    model = tangent(net, params)
    points, w = model.at(x), model.zeros()
    J = points.jacobian(w)
    ntk = fw.empirical_ntk(net, params, x)
    assert_close(J @ J.T, ntk.transpose(2, 0, 3, 1).reshape(8, 8))
    mu = TangentMetaKernel((points, model.at(x[:2]), points), w).dense()
    dntk = fw.empirical_dntk(net, params, x, x[:2], x)
    assert_close(mu, dntk.transpose(3, 0, 4, 1, 5, 2).reshape(8, 4, 8), 1e-11)


def test_contractions_are_those_of_the_dense_tensor(net, params, x, rng):
    model = tangent(net, params, epsilon=0.3)
    kernel = TangentMetaKernel((model.at(x), model.at(x[:2]), model.at(x[1:])), model.zeros())
    dense = kernel.dense()
    C, D, q = rng.normal(size=(2, 4, 6)), rng.normal(size=(2, 8, 6)), rng.normal(size=(6, 2))
    assert_close(kernel.over_features(C), np.einsum("abc,obc->ao", dense, C))
    assert_close(kernel.over_meta(D), np.einsum("abc,oac->bo", dense, D))
    assert_close(kernel.along(q), np.einsum("abc,co->oab", dense, q))
    assert_close(dense, 0.3 * TangentMetaKernel(kernel.points, model.zeros()).dense() / 0.3)


def test_derivatives_of_explicit_features_are_the_features(rng):
    problem = random_problem(2)
    model, w = problem.model(0.3), jnp.asarray(rng.normal(size=14))
    tables = tuple(model.at(p) for p in (problem.train, problem.test, problem.train))
    bare = TangentMetaKernel(tables, w[None]).dense()
    assert_close(bare, model.meta_kernel(problem.train, problem.test, problem.train, weights=w).dense())


def test_epsilon_makes_a_network_lazy(net, params, x):
    """The kernel stays, the meta kernel is proportional to epsilon, the function tends to its tangent."""
    whole, lazy = (tangent(net, params, epsilon=e) for e in (1.0, 1e-4))
    w = whole.zeros()
    assert_close(lazy.at(x).jacobian(w), whole.at(x).jacobian(w), 1e-9)
    triple = lambda model: TangentMetaKernel((model.at(x),) * 3, w).dense()
    assert_close(triple(lazy), 1e-4 * triple(whole), 1e-6)
    step = 0.5 * jax.random.normal(jax.random.key(3), w.shape)
    assert_close(lazy(step, x), tangent(net, params, order=1)(step, x), 1e-3)


@pytest.mark.parametrize("order", [2, 3, None])
def test_a_network_is_a_nearly_kernel_machine_when_it_is_lazy(order):
    """Trained without any expansion: the error is of second order in epsilon, that of the NTK of first."""
    net = fw.MLP((8,), "tanh", C_b=0.1, C_W=1.3, n_out=2)
    params = net.init(jax.random.key(4), 3)
    x, x_test = (jax.random.normal(jax.random.key(k), (n, 3)) for k, n in ((5, 3), (6, 4)))
    y = jnp.stack([jnp.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1)
    epsilons, errors, linear = 0.05 * 0.5 ** np.arange(4), [], []
    for epsilon in epsilons:
        model = fw.TangentModel(
            net.apply, params, order=order, rates=net.learning_rates(3), epsilon=float(epsilon)
        )
        end = train_weights(model.at(x), y, fw.GradientDescent(), model.zeros())
        machine = fw.nearly_kernel_machine(model, x, y, x_test)
        real = model(end.weights, x_test)
        errors.append(float(jnp.abs(machine.prediction - real).max()))
        linear.append(float(jnp.abs(machine.linear - real).max()))
    assert abs(slope(epsilons, errors) - 2) < 0.1
    assert abs(slope(epsilons, linear) - 1) < 0.1


def test_bad_input(net, params, x):
    with pytest.raises(ValueError, match="order must be a whole number of at least 1, or None, got 0"):
        tangent(net, params, order=0)
    with pytest.raises(ValueError, match="epsilon=0 with order=None: the linear model is order=1"):
        tangent(net, params, epsilon=0.0)
    with pytest.raises(ValueError, match="y has 1 outputs and the model has 2"):
        fw.nearly_kernel_machine(tangent(net, params), x, np.ones(4), x)
