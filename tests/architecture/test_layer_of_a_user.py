"""A layer that the package does not know, written as a user would: it works wherever a network does."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.tolerances import assert_close

import finitewidth as fw
from finitewidth.statistics.wide import rules

SILU = fw.Activation(lambda z: z * jax.nn.sigmoid(z), name="gate")


class Gate(fw.Layer):
    """Outputs g * z * sigmoid(z) with one random, trained gain g ~ N(0, variance) per channel."""

    variance: float = 1.5
    rate: float = 0.4

    def leaving(self, entering):
        return entering

    def init(self, key, entering, *, weights="gaussian", dtype=float):
        shape = (entering,) if isinstance(entering, int) else entering[-1:]
        return jnp.sqrt(self.variance) * jax.random.normal(key, shape, dtype)

    def apply(self, params, x):
        return params * SILU(x)

    def learning_rates(self, entering, geometry="gradient"):
        return self.rate


def _above(layer, value, slope, below):
    return rules.Kernels(layer.variance * value, layer.rate * value + layer.variance * slope * below.ntk)


@rules.own.register
def _(layer: Gate, below, laws):
    law = laws[SILU]
    return _above(layer, *law.moments(below.nngp), below), law.features(below.nngp)


@rules.cross.register
def _(layer: Gate, below, rows, columns, laws):
    return _above(layer, *laws[SILU].pair(rows, columns, below.nngp), below)


def network(width: int = 64) -> fw.Sequential:
    return fw.Sequential(fw.Dense(width, 0.2, 1.4), Gate(), fw.Dense(1, 0.1, 1.1))


@pytest.fixture(scope="module")
def data():
    x = jax.random.normal(jax.random.key(7), (6, 2))
    return x[:4], jnp.sin(x[:4, :1]), x[4:]


def gaussian_pairs(K):
    """<s s> and <s' s'> of the gate by a grid over two Gaussians, with nothing of the package in it."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    u, v = np.meshgrid(nodes, nodes, indexing="ij")
    a, b = np.linalg.cholesky(K) @ np.stack([u.ravel(), v.ravel()])
    s = lambda z: z / (1 + np.exp(-z))
    slope = lambda z: 1 / (1 + np.exp(-z)) + z * np.exp(-z) / (1 + np.exp(-z)) ** 2
    w = np.outer(weights, weights).ravel()
    return w @ (s(a) * s(b)), w @ (slope(a) * slope(b))


def test_kernels_follow_the_rule(data):
    x = np.asarray(data[0][:2])
    below = 0.2 + 1.4 * x @ x.T / 2
    value, slope = gaussian_pairs(below)
    ntk_below = 1 + x @ x.T / 2
    nngp, ntk = fw.kernels(network(), x)
    assert_close(nngp[0, 1], 0.1 + 1.1 * 1.5 * value, 1e-8)
    expected = 1 + 1.5 * value + 1.1 * (0.4 * value + 1.5 * slope * ntk_below[0, 1])
    assert_close(ntk[0, 1], expected, 1e-8)


def test_real_networks_have_the_kernels_of_the_rule(data):
    net, x = network(1000), data[0]
    keys = jax.random.split(jax.random.key(0), 100)
    kernels = jax.lax.map(lambda key: fw.empirical_ntk(net, net.init(key, 2), x)[0, 0], keys, batch_size=10)
    standard_error = kernels.std(axis=0, ddof=1) / 10
    assert float(jnp.max(jnp.abs(kernels.mean(axis=0) - fw.kernels(net, x).ntk) / standard_error)) < 4.5


def test_it_is_trained_predicted_and_verified(data):
    x, y, x_test = data
    net = network(256)
    params = net.init(jax.random.key(0), 2)
    run = fw.train(net, params, x, y, steps=100, learning_rate=0.05)
    assert run.losses[-1] < 0.5 * run.losses[0]
    law = fw.predict(net, x, y, x_test, fw.GradientDescent(0.05, 100))
    check = fw.verify(law, networks=60)
    assert check.agrees
    assert (check.depth, check.width) == (3, 256)


def test_an_expansion_in_width_is_refused_in_one_sentence(data):
    with pytest.raises(ValueError, match=r"Dense Activate \.\.\. Dense; the network is Dense Gate Dense"):
        fw.predict(network(), *data, order=1)


def test_a_layer_without_a_rule_says_so(data):
    class Silent(fw.Layer):
        leaving = Gate.leaving
        init = lambda self, key, entering, *, weights="gaussian", dtype=float: ()
        apply = lambda self, params, x: x
        learning_rates = lambda self, entering, geometry="gradient": ()

    net = fw.Sequential(fw.Dense(8, 0.1, 1.0), Silent(), fw.Dense(1, 0.1, 1.0))
    with pytest.raises(TypeError, match="no infinite-width rule is known for the layer Silent"):
        fw.kernels(net, data[0])
    assert net.apply(net.init(jax.random.key(0), 2), data[0]).shape == (4, 1)
