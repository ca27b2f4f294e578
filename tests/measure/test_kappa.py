"""Kappa against dense derivatives, and the degree of homogeneous models."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth import MLP
from finitewidth.measure.loss.kappa import homogeneous_degree, kappa

X = np.random.default_rng(1).normal(size=(4, 2))
Y = np.random.default_rng(2).normal(size=(4, 1))
ROWS = np.random.default_rng(3).normal(size=(3, 3))


def neurons(rows, x):
    return jnp.tanh(x @ rows[:, :2].T) @ rows[:, 2:]


def test_norms_are_those_of_the_dense_derivatives():
    found = kappa(neurons, ROWS, X, Y)
    flat = lambda w: neurons(w.reshape(3, 3), X)[:, 0]
    jacobian, second = jax.jacobian(flat)(ROWS.ravel()), jax.hessian(flat)(ROWS.ravel())
    np.testing.assert_allclose(found.first, np.linalg.norm(jacobian, 2), rtol=1e-10)
    np.testing.assert_allclose(found.second, np.linalg.norm(second.reshape(-1, 9), 2), rtol=1e-7)
    np.testing.assert_allclose(found.gradient, np.linalg.norm((flat(ROWS.ravel()) - Y[:, 0]) @ jacobian))


def test_kappa_of_a_scaled_model_is_that_of_the_model_written_out():
    found = kappa(neurons, ROWS, X, Y)
    scaled = kappa(lambda w, x: 7.0 * neurons(w, x), ROWS, X, Y)
    np.testing.assert_allclose(found.at_scale(7.0), scaled.value, rtol=1e-7)
    limit = np.linalg.norm(found.outputs) * found.second / found.first**2
    np.testing.assert_allclose(found.at_scale(np.inf), limit)


def test_models_that_are_not_homogeneous_are_refused():
    net = MLP((4, 4), "relu", C_b=0.5, C_W=2.0)
    params = net.init(jax.random.key(0), 2)
    with pytest.raises(ValueError, match="the model is not homogeneous: its outputs at"):
        homogeneous_degree(net, params, X)
    with pytest.raises(ValueError, match="the outputs are all zero"):
        homogeneous_degree(lambda w, x: 0 * x @ w, np.ones((2, 1)), X)
    with pytest.raises(ValueError, match="the Jacobian of the model is zero"):
        kappa(lambda w, x: 0 * x @ w, np.ones((2, 1)), X, Y)
    with pytest.raises(ValueError, match="alpha must be positive"):
        kappa(neurons, ROWS, X, Y).at_scale(0.0)
    with pytest.raises(ValueError, match="y has shape"):
        kappa(neurons, ROWS, X, np.ones((4, 2)))
