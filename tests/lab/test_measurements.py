"""The instruments of the laboratory, checked against closed forms and against each other."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.architecture import MLP
from finitewidth.lab import one_layer
from finitewidth.lab.ensembles import input_of_size, over_layers, over_networks
from finitewidth.lab.estimate import sample_mean
from finitewidth.networks.mlp import preactivations

DRAWS = 4000


def hidden_moments(net, params, x):
    """Second moments of every hidden layer of a real network."""
    return jnp.stack([z @ z.T / z.shape[1] for z in preactivations(net, params, x)[:-1]])


def tangent_moments(net, params, x):
    z, dz = jax.jvp(lambda x: preactivations(net, params, x), (x[:1],), (x[1:],))
    pairs = [jnp.concatenate([a, b]) for a, b in zip(z[:-1], dz[:-1], strict=True)]
    return jnp.stack([pair @ pair.T / pair.shape[1] for pair in pairs])


@pytest.mark.parametrize("with_tangent", [False, True])
def test_layers_drawn_one_by_one_have_the_law_of_networks(with_tangent):
    net = MLP((6, 6), "tanh", 0.2, 1.4)
    x = np.array([[1.0, 0.5, -0.3], [0.2, -0.8, 1.0]])
    statistic = tangent_moments if with_tangent else hidden_moments
    real = over_networks(net, x, jax.random.key(0), DRAWS, statistic)
    drawn = over_layers(net, x, jax.random.key(1), DRAWS, with_tangent=with_tangent)
    for power in (1, 2):
        first, second = sample_mean(real**power), sample_mean(drawn**power)
        z = (first.value - second.value) / np.hypot(first.sem, second.sem)
        assert np.abs(z).max() < 4


def test_layers_of_different_widths_are_refused():
    with pytest.raises(ValueError, match=r"one width, got \(4, 5\)"):
        over_layers(MLP((4, 5), "relu"), input_of_size(1.0), jax.random.key(0), 2)


def test_parallel_inputs_stay_finite():
    moments = over_layers(MLP((8, 8), "relu"), np.ones((2, 3)), jax.random.key(0), 5)
    assert np.isfinite(moments).all()
    np.testing.assert_allclose(moments[..., 0, 0], moments[..., 0, 1], rtol=1e-5)


@pytest.mark.parametrize("draws", [1, 7, 100_000])
def test_number_of_draws(draws):
    outputs = over_networks(MLP((2,), "linear"), input_of_size(1.0), jax.random.key(0), draws, hidden_moments)
    assert outputs.shape == (draws, 1, 1, 1)
    assert len(np.unique(outputs)) == draws


@pytest.mark.parametrize("K", [0.1, 1.0, 2.5])
def test_responses_of_sin_have_closed_forms(K):
    """<sin^2> = (1 - e^-2K)/2 and <cos^2> = (1 + e^-2K)/2."""
    sin = one_layer.plain_function("sin")
    decay = np.exp(-2 * K)
    np.testing.assert_allclose(one_layer.second_moment(sin, K), (1 - decay) / 2, rtol=1e-12)
    np.testing.assert_allclose(one_layer.parallel_response(sin, 1.5, K), 1.5 * decay, rtol=1e-9)
    np.testing.assert_allclose(one_layer.perpendicular_response(sin, 1.5, K), 0.75 * (1 + decay), rtol=1e-9)
    np.testing.assert_allclose(one_layer.curvature(sin, 1.5, K), -3 * decay, rtol=1e-6)


def test_variance_flow_of_a_kinked_activation():
    relu = one_layer.plain_function("relu")
    np.testing.assert_allclose(
        one_layer.variance_flow(relu, 0.5, 1.0, 3.0, 4), [3.0, 2.0, 1.5, 1.25], rtol=1e-12
    )


def test_critical_variance_of_gelu_is_known():
    np.testing.assert_allclose(
        one_layer.critical_variance("gelu", 1.0, 10.0), (3 + np.sqrt(17)) / 2, rtol=1e-9
    )
