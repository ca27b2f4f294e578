"""Rescaled networks: rates that keep the function, the balance of neurons, and what is refused."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth import MLP
from finitewidth.course.optimiser_geometry.networks.rescaling import balance, rescale, train_rescaled
from finitewidth.course.optimiser_geometry.theory.rescaling import balance_change, equivariant_rates
from finitewidth.networks.training.training import train

NET = MLP((6,), "relu", C_b=0.1, C_W=2.0)
PARAMS = NET.init(jax.random.key(0), 3)
X = np.random.default_rng(0).normal(size=(7, 3))
Y = np.sin(X[:, :1])


def per_neuron(rng):
    """Factors of every neuron: its weights and bias in, its weights out; the last bias stays."""
    s = jnp.asarray(rng.uniform(0.5, 2, size=6))
    layer = type(PARAMS[0])
    return (layer(s[:, None] * jnp.ones((6, 3)), s), layer(1 / s[None, :], jnp.ones(1)))


def test_a_rescaled_network_with_biases_stays_the_same_function(rng):
    factors = per_neuron(rng)
    how = {"steps": 30, "learning_rate": 0.02}
    rates = equivariant_rates(factors, "gradient")
    same = train_rescaled(NET, PARAMS, factors, X, Y, **how, rate_factors=rates)
    other = train_rescaled(NET, PARAMS, factors, X, Y, **how)
    assert same.gap < 1e-12
    assert other.gap > 1e-3
    assert same.losses[-1, 0] < 0.9 * same.losses[0, 0]
    run = train(NET, PARAMS, X, Y, **how)
    np.testing.assert_allclose(same.losses[:-1, 0], run.losses, rtol=1e-12)


def test_a_step_changes_the_balance_by_the_squares_of_the_gradients():
    run = train(NET, PARAMS, X, Y, rates=1.0, steps=1, learning_rate=0.05)
    parts = lambda p: (p[0].weight, p[1].weight, p[0].bias)
    loss = lambda p: 0.5 * jnp.sum((NET.apply(p, jnp.asarray(X)) - Y) ** 2)
    g = jax.grad(loss)(PARAMS)
    into = jnp.concatenate([g[0].weight, g[0].bias[:, None]], axis=1)
    expected = balance_change(into, g[1].weight.T, 0.05)
    np.testing.assert_allclose(balance(*parts(run.params)) - balance(*parts(PARAMS)), expected, atol=1e-13)
    assert np.abs(expected).max() > 1e-5


def test_factors_that_change_the_function_are_refused():
    with pytest.raises(ValueError, match="the model is not homogeneous in the rescaled weights"):
        train_rescaled(NET, PARAMS, (2.0, 0.5), X, Y, steps=1, learning_rate=0.1)
    with pytest.raises(ValueError, match="factors must all be positive"):
        rescale(PARAMS, -1.0)
    with pytest.raises(ValueError, match="give one number, or one per leaf"):
        rescale(PARAMS, (1.0, 2.0, 3.0))
    with pytest.raises(ValueError, match="the same neurons"):
        balance(np.ones((6, 3)), np.ones((1, 5)))
    with pytest.raises(ValueError, match="unknown geometry 'l2'"):
        equivariant_rates(2.0, "l2")
