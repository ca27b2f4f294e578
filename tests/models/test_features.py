import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.models.features import FourierFeatures, MixedMetaFeatures, PolynomialFeatures
from tolerances import assert_close


def test_cubic_curves_are_fitted_by_cubic_features(rng):
    x = rng.normal(size=(4, 1))
    y = 1 - 2 * x + 0.5 * x**3
    model = fw.LinearModel(PolynomialFeatures(3))
    weights = jnp.linalg.solve(model.at(x).phi, y).T
    assert_close(weights, np.array([[1.0, -2.0, 0.0, 0.5]]), 1e-9)


def test_every_monomial_of_two_inputs(rng):
    x = rng.normal(size=(3, 2))
    a, b = x.T
    expected = np.stack([a**0, a, b, a * a, a * b, b * b, a**3, a * a * b, a * b * b, b**3], axis=1)
    assert_close(PolynomialFeatures(3)(x), expected)


def test_waves_average_to_a_gaussian_kernel(rng):
    x, n, length = rng.normal(size=(5, 3)), 20_000, 1.7
    phi = FourierFeatures.draw(jax.random.key(0), 3, n, length)(x)
    distance = np.sum((x[:, None] - x[None]) ** 2, axis=-1)
    # Each entry averages n numbers of variance below 3/2; four standard errors.
    bound = 4 * np.sqrt(1.5 / n)
    assert np.abs(phi @ phi.T - np.exp(-distance / (2 * length**2))).max() < bound


def test_mixtures_are_symmetric_and_linear_in_the_features(rng):
    x = rng.normal(size=(4, 2))
    phi, mixing = FourierFeatures.draw(jax.random.key(1), 2, 6), rng.normal(size=(6, 6))
    psi = MixedMetaFeatures(phi, mixing)
    assert_close(psi(x), np.einsum("nl,jl,kl->njk", phi(x), mixing, mixing))
    model = fw.QuadraticModel(phi, psi, 0.1)
    machine = fw.nearly_kernel_machine(model, x, np.ones(4), x)
    assert_close(machine.prediction, np.ones((4, 1)), 1e-9)


def test_bad_input():
    with pytest.raises(ValueError, match="degree must be a whole number, zero or more, got -1"):
        PolynomialFeatures(-1)
    with pytest.raises(ValueError, match="length must be positive, got 0"):
        FourierFeatures.draw(jax.random.key(0), 2, 4, 0.0)
