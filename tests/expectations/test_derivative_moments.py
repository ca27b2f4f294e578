"""Averages of derivatives at two points, against two-dimensional quadrature and closed forms."""

import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.architecture.activations import as_activation
from finitewidth.expectations.four_factors.derivative_moments import (
    HIGHEST_DERIVATIVE,
    DerivativeMoments,
    is_smooth,
    tower,
)
from tolerances import DIFFERENCES, SERIES, assert_close

NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(120)
WEIGHTS = WEIGHTS / WEIGHTS.sum()


def by_quadrature(activation, K, rows, columns):
    """Both preactivations from two independent normals, on a product grid."""
    lower = np.linalg.cholesky(K)
    u, v = np.meshgrid(NODES, NODES, indexing="ij")
    z = lower[0, 0] * u, lower[1, 0] * u + lower[1, 1] * v
    product = np.ones_like(u)
    for orders, points in zip((rows, columns), z, strict=True):
        derivatives = tower(activation.function, jnp.asarray(points), HIGHEST_DERIVATIVE)
        for order in orders:
            product = product * np.asarray(derivatives[order])
    return WEIGHTS @ product @ WEIGHTS


@pytest.mark.parametrize("name", ["gelu", "sin", "erf"])
@pytest.mark.parametrize(("rows", "columns"), [((0,), (0,)), ((3,), (1,)), ((5,), (2,)), ((0, 0), (1, 1))])
def test_pairs_agree_with_quadrature(name, rows, columns):
    K = np.array([[0.5, 0.3], [0.3, 0.7]])
    activation = as_activation(name)
    moments = DerivativeMoments(activation.function, K)
    assert_close(moments(rows, columns)[0, 1], by_quadrature(activation, K, rows, columns), SERIES, scale=1.0)


def test_what_the_series_leaves_out_is_within_the_tolerance():
    """A large variance and a large correlation, where 64 terms are not enough."""
    K = 9.0 * np.array([[1.0, 0.97], [0.97, 1.0]])
    exact = DerivativeMoments(jnp.tanh, K, tolerance=1e-13)
    for tolerance in (1e-3, 1e-5, 1e-7):
        found = DerivativeMoments(jnp.tanh, K, tolerance=tolerance)
        for k in range(6):
            size = exact.pair(k, k)[0, 0]
            assert abs(found.pair(k, k)[0, 1] - exact.pair(k, k)[0, 1]) <= tolerance * size, (tolerance, k)


def test_swapping_the_factors_transposes():
    x = np.random.default_rng(0).normal(size=(4, 3))
    moments = DerivativeMoments(jnp.tanh, x @ x.T + np.eye(4))
    assert_close(moments((2,), (0, 1)), moments((0, 1), (2,)).T)


def test_equal_points_are_integrated_in_one_dimension():
    moments = DerivativeMoments(jnp.tanh, np.full((2, 2), 0.9))
    assert_close(moments.pair(2, 4)[0, 1], moments.pair(2, 4)[0, 0], SERIES)


def test_stein_identity():
    """d<f g>/dK_ab = <f' g'> off the diagonal, the left side by a five-point difference."""
    K, h = np.array([[1.2, 0.4], [0.4, 0.8]]), 1e-3
    direction = np.array([[0.0, 1.0], [1.0, 0.0]])
    at = lambda step: DerivativeMoments(jnp.tanh, K + step * direction).pair(1, 1)[0, 1]
    slope = (8 * (at(h) - at(-h)) - (at(2 * h) - at(-2 * h))) / (12 * h)
    assert_close(slope, DerivativeMoments(jnp.tanh, K).pair(2, 2)[0, 1], DIFFERENCES)


@pytest.mark.parametrize(
    ("name", "smooth"), [("tanh", True), ("gelu", True), ("linear", True), ("relu", False), ("elu", False)]
)
def test_smooth_activations_are_told_from_kinked_ones(name, smooth):
    assert is_smooth(as_activation(name).function) is smooth


def test_a_jump_is_not_smooth():
    assert not is_smooth(as_activation("step").function)
