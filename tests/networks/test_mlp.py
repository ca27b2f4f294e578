import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import truncnorm

import finitewidth as fw
from finitewidth.architecture.dense import Affine
from finitewidth.architecture.weights import DRAWS
from tolerances import assert_close


def test_apply_is_the_affine_recursion(net, params, inputs):
    x = np.asarray(inputs[2])
    (w1, b1), (w2, b2), (w3, b3) = (tuple(map(np.asarray, layer)) for layer in params)
    h = np.tanh(np.tanh(x @ w1.T + b1) @ w2.T + b2)
    assert_close(net.apply(params, inputs[2]), h @ w3.T + b3)
    assert_close(net.apply(params, inputs[2]), h @ w3.T + b3)


def test_functions_and_methods_draw_the_same_network(net, key):
    for a, b in zip(jax.tree.leaves(net.init(key, 3)), jax.tree.leaves(net.init(key, 3)), strict=True):
        assert_close(a, b, 0.0)


@pytest.mark.parametrize("law", list(DRAWS))
def test_weights_have_mean_zero_and_variance_C_W_over_fan_in(law):
    """60,000 entries: five standard errors of mean and variance, the latter at most (2/60,000)^(1/2)."""
    net = fw.MLP(hidden=(300,), activation="tanh", C_b=0.0, C_W=1.7, n_out=1)
    weight = np.asarray(net.init(jax.random.key(2), 200, weights=law)[0].weight) * np.sqrt(200 / 1.7)
    assert abs(weight.mean()) < 5 / np.sqrt(weight.size)
    assert abs(weight.var() - 1) < 5 * np.sqrt(2 / weight.size)


def test_uniform_and_truncated_weights_stay_within_their_bounds():
    net = fw.MLP(hidden=(300,), activation="tanh", C_b=0.0, C_W=1.0)
    for law, bound in (("uniform", np.sqrt(3)), ("truncated", 2 / truncnorm(-2, 2).std())):
        weight = np.abs(net.init(jax.random.key(2), 200, weights=law)[0].weight) * np.sqrt(200)
        assert 0.99 * bound < weight.max() <= bound


@pytest.mark.parametrize("shape", [(7, 4), (4, 7), (5, 5)])
def test_orthogonal_weights_are_a_multiple_of_an_isometry(shape):
    weight = DRAWS["orthogonal"](jax.random.key(0), shape, jnp.dtype(float))
    small = weight @ weight.T if shape[0] <= shape[1] else weight.T @ weight
    assert_close(small, max(shape) * np.eye(min(shape)))


def test_any_function_can_draw_the_weights(key):
    net = fw.MLP(hidden=(4,), activation="relu", C_b=0.0, C_W=2.0)
    weight = net.init(key, 8, weights=jax.random.rademacher)[0].weight
    assert_close(jnp.abs(weight), np.full((4, 8), 0.5))


def test_float32_networks_compute_in_float32(key):
    net = fw.MLP(hidden=(4, 4), activation="gelu", C_b=0.1, C_W=1.0)
    params = net.init(key, 3, dtype=jnp.float32)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(params)} == {"float32"}
    x = jnp.ones((2, 3), jnp.float32)
    assert net.apply(params, x).dtype == jnp.float32
    assert fw.empirical_ntk(net, params, x).dtype == jnp.float32
    run = fw.train(net, params, x, x[:, 0], steps=3, learning_rate=0.01)
    assert {leaf.dtype.name for leaf in jax.tree.leaves(run.params)} == {"float32"}


def test_layers_are_drawn_independently():
    net = fw.MLP(hidden=(6, 6), activation="tanh", C_b=1.0, C_W=1.0)
    first, second, _ = net.init(jax.random.key(0), 6)
    assert not np.allclose(first.weight, second.weight)
    assert not np.allclose(first.bias, second.bias)


def test_biases_are_drawn_apart_from_the_weights(key):
    """With unit variances, numbers of one key would be found among the weights and the biases."""
    net = fw.MLP(hidden=(5, 6), activation="tanh", C_b=1.0, C_W=[3.0, 5.0, 6.0], n_out=4)
    numbers = np.concatenate([np.ravel(part) for layer in net.init(key, 3) for part in layer])
    assert len(np.unique(np.round(numbers, 12))) == len(numbers) == 15 + 5 + 30 + 6 + 24 + 4


def test_parameters_of_another_network_are_refused(net, params, inputs):
    x = inputs[0]
    with pytest.raises(ValueError, match="params has 2 entries; this network has 3 affine layers"):
        net.apply(params[:2], x)
    with pytest.raises(
        ValueError, match=r"params\[0\].weight has shape \(4, 3\); .* with 2 inputs needs \(4, 2\)"
    ):
        net.apply(params, x[:, :2])
    wrong = (params[0], Affine(params[1].weight.T, params[1].bias), params[2])
    with pytest.raises(ValueError, match=r"params\[1\].weight has shape \(4, 5\)"):
        net.apply(wrong, x)
    with pytest.raises(ValueError, match=r"x must be an array of shape \(points, features\), got \(3,\)"):
        net.apply(params, x[0])


def test_unknown_weights_and_wrong_shapes_are_refused(net, key):
    with pytest.raises(ValueError, match=r"unknown weights 'xavier'. Known: gaussian, uniform"):
        net.init(key, 3, weights="xavier")
    with pytest.raises(ValueError, match=r"weights returned shape \(4,\) where \(4, 3\) was asked"):
        net.init(key, 3, weights=lambda key, shape, dtype: jnp.ones(shape[0], dtype))
