"""Averages of kinked activations: exact cases, direct sampling, and finite differences of closed forms."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.architecture.activations import as_activation
from finitewidth.expectations.four_factors.four_point import four_point_averages
from finitewidth.expectations.kinked.piecewise_linear import (
    SignedMoments,
    Slopes,
    kinked_four_point,
    kinked_pairs,
    slopes_of,
)
from tolerances import CLOSED_FORM, SERIES, assert_close

SLOPES = Slopes(-0.3, 1.2)


def covariance(rng, n=4):
    x = rng.normal(size=(n, 3))
    return x @ x.T / 3 + 0.1


def test_slopes_are_read_off_the_function():
    assert slopes_of(as_activation("relu").function) == (0.0, 1.0)
    assert slopes_of(as_activation("abs").function) == (-1.0, 1.0)
    assert slopes_of(as_activation("elu").function) is None
    assert slopes_of(as_activation("step").function) is None


def test_four_signs_of_equal_correlations():
    """With correlations 1/2 all n variables are positive with probability 1/(n+1)."""
    K = np.full((1, 4, 4), 0.5) + 0.5 * np.eye(4)
    two, four = (
        SignedMoments(K)((0,) * 4, (True, True, False, False)),
        SignedMoments(K)((0,) * 4, (True,) * 4),
    )
    assert_close((1 + 6 * two + four) / 16, np.array([1 / 5]), CLOSED_FORM)


def test_independent_pairs_factorise():
    K = np.array([[1.0, 0.6, 0, 0], [0.6, 2.0, 0, 0], [0, 0, 0.5, -0.3], [0, 0, -0.3, 1.5]])
    four, pairs = kinked_four_point(SLOPES, K), kinked_pairs(SLOPES, K)
    assert_close(four[0, 0, 0, 0][0, 1, 2, 3], pairs[0, 0][0, 1] * pairs[0, 0][2, 3], CLOSED_FORM)
    assert_close(four[1, 1, 0, 0][0, 1, 2, 3], pairs[1, 1][0, 1] * pairs[0, 0][2, 3], CLOSED_FORM)
    assert_close(four[1, 1, 1, 1][0, 1, 2, 3], pairs[1, 1][0, 1] * pairs[1, 1][2, 3], CLOSED_FORM)


def test_a_straight_line_is_smooth(rng):
    K = covariance(rng)
    line = kinked_four_point(Slopes(0.7, 0.7), K)
    quadrature = four_point_averages(lambda z: 0.7 * z, K, 1e-9)
    for signature, values in line.items():
        assert_close(values, quadrature[signature], SERIES)


def test_sampled_neurons(rng):
    K = covariance(rng)
    four = kinked_four_point(SLOPES, K)
    z = np.linalg.cholesky(K) @ rng.normal(size=(4, 400_000))
    value, slope = np.where(z > 0, 1.2 * z, -0.3 * z), np.where(z > 0, 1.2, -0.3)
    for signature, labels in itertools.product(
        four, [(0, 1, 2, 3), (3, 1, 0, 2), (0, 0, 1, 2), (1, 2, 1, 1)]
    ):
        product = np.prod(
            [(slope if k else value)[i] for k, i in zip(signature, labels, strict=True)], axis=0
        )
        z_score = (four[signature][labels] - product.mean()) / (product.std() / np.sqrt(product.size))
        assert abs(z_score) < 4


@pytest.mark.parametrize("orders", [(1, 1), (2, 0), (2, 2), (3, 1), (3, 3), (4, 0), (4, 2), (5, 1)])
def test_pairs_are_derivatives_of_the_covariance_map(orders):
    """One derivative by either label is one in K_ab, two by one label are twice that in K_aa."""

    def value(kaa, kab, kbb):
        K = jnp.array([[kaa, kab], [kab, kbb]])
        root = jnp.sqrt(jnp.linalg.det(K))
        signed = root + kab * jnp.arcsin(kab / jnp.sqrt(kaa * kbb))
        return 0.45**2 * kab + 0.75**2 * 2 / jnp.pi * signed

    k, l = orders
    function, factor = value, 1.0
    for _ in range(l):
        function = jax.grad(function, argnums=1)
    for _ in range((k - l) // 2):
        function, factor = jax.grad(function, argnums=0), 2 * factor
    K = np.array([[0.8, 0.3], [0.3, 1.1]])
    pairs = kinked_pairs(SLOPES, K)
    assert_close(pairs[k, l][0, 1], factor * function(0.8, 0.3, 1.1), CLOSED_FORM)
    assert_close(pairs[l, k][1, 0], pairs[k, l][0, 1])


def planar_average(x, signature, labels):
    """Inputs in a plane: radial moments times an integral over the angle, sector by sector between kinks."""
    kinks = np.sort(
        (np.arctan2(x[:, 1], x[:, 0])[:, None] + np.pi / 2 * np.array([1, -1])).ravel() % (2 * np.pi)
    )
    kinks = np.append(kinks, kinks[0] + 2 * np.pi)
    nodes, weights = np.polynomial.legendre.leggauss(30)
    middle, half = (kinks[1:] + kinks[:-1]) / 2, np.diff(kinks) / 2
    angle = middle[:, None] + half[:, None] * nodes
    z = np.einsum("id,dka->ika", x, np.stack([np.cos(angle), np.sin(angle)]))
    factors = np.where(z > 0, 1.2 * z, -0.3 * z), np.where(z > 0, 1.2, -0.3)
    product = np.prod([factors[k][i] for k, i in zip(signature, labels, strict=True)], axis=0)
    radial = {0: 8.0, 2: 2.0, 4: 1.0}[sum(signature)]
    return radial * np.einsum("ka,a,k->", product, weights, half) / (2 * np.pi)


@pytest.mark.parametrize("labels", [(0, 1, 2, 3), (1, 1, 0, 3), (4, 2, 1, 4), (5, 0, 3, 6), (6, 5, 2, 3)])
def test_dependent_and_parallel_inputs(labels):
    """Seven inputs in a plane, some of them parallel or opposite."""
    x = np.array([[1, 0.2], [-2, -0.4], [0.5, 0.1], [0.3, -0.8], [-0.3, 0.8], [0.9, 0.7], [-1.1, 0.3]])
    for signature, values in kinked_four_point(SLOPES, x @ x.T).items():
        scale = np.abs(values).max()
        assert_close(values[labels], planar_average(x, signature, labels), 1e-6, scale=scale)


def test_pairs_of_parallel_inputs_are_the_limit_of_nearly_parallel_ones():
    x = np.array([[1.0, 0.0], [-2.0, 0.0]])
    found = kinked_pairs(SLOPES, x @ x.T)
    x[1, 1] = 1e-9
    assert np.isfinite(found).all()
    assert_close(found, kinked_pairs(SLOPES, x @ x.T), 1e-7)
