import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from dense_derivatives import flatten, hessian, jacobian, third
from tolerances import assert_close


@pytest.fixture
def shift(params):
    leaves, tree = jax.tree.flatten(params)
    keys = jax.random.split(jax.random.key(3), len(leaves))
    return jax.tree.unflatten(
        tree, [0.1 * jax.random.normal(k, leaf.shape) for k, leaf in zip(keys, leaves, strict=True)]
    )


def moved(params, shift, t):
    return jax.tree.map(lambda p, s: p + t * s, params, shift)


def test_orders_are_the_terms_of_the_taylor_series(net, params, inputs, shift):
    x = inputs[0]
    flat = flatten(net, params)
    d = jnp.concatenate([leaf.reshape(-1) for leaf in jax.tree.leaves(shift)])
    linear = net.apply(params, x) + jacobian(flat, x) @ d
    quadratic = linear + hessian(flat, x) @ d @ d / 2
    cubic = quadratic + third(flat, x) @ d @ d @ d / 6
    for order, expected in ((1, linear), (2, quadratic), (3, cubic)):
        assert_close(fw.expand(net, params, order)(moved(params, shift, 1.0), x), expected)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_error_falls_with_the_power_after_the_order(net, params, inputs, shift, order):
    x = inputs[2]
    model = fw.expand(net, params, order)
    errors = [
        float(jnp.linalg.norm(model(moved(params, shift, t), x) - net.apply(moved(params, shift, t), x)))
        for t in (0.1, 0.05)
    ]
    assert abs(np.log2(errors[0] / errors[1]) - (order + 1)) < 0.1


def test_a_linear_model_in_its_parameters_is_its_own_expansion(key, inputs, shift):
    model = fw.expand(lambda w, x: x @ w, jnp.ones((3, 2)), 1)
    w = jax.random.normal(key, (3, 2))
    assert_close(model(w, inputs[2]), inputs[2] @ w)


def test_the_kernel_of_the_expansion_at_its_center_is_that_of_the_network(net, params, inputs):
    model = fw.expand(net, params, 2)
    rates = net.learning_rates(3)
    assert_close(
        fw.empirical_ntk(model, params, inputs[2], rates=rates), fw.empirical_ntk(net, params, inputs[2])
    )


def test_the_linear_model_keeps_its_kernel_and_its_learning_rates(net, params, inputs):
    """Training follows e(t+1) = (1 - eta H) e(t) with the kernel of the network, rates included."""
    x = inputs[1]
    y = jnp.sin(x[:, :2])
    run = fw.train(fw.expand(net, params, 1), params, x, y, steps=7, learning_rate=0.05)
    H = fw.empirical_ntk(net, params, x)
    e = net.apply(params, x) - y
    for _ in range(7):
        e = e - 0.05 * jnp.einsum("ijab,bj->ai", H, e)
    assert_close(fw.expand(net, params, 1)(run.params, x) - y, e)


def test_order_must_be_a_positive_whole_number(net, params):
    with pytest.raises(ValueError, match="order must be a whole number of at least 1, got 0"):
        fw.expand(net, params, 0)
