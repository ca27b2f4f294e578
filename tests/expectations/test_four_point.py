"""Averages of four factors: against plain product rules, and at the extremes where they are known."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.expectations.four_factors.four_point import SIGNATURES, four_point_averages
from finitewidth.expectations.four_factors.own_variance import own_variances
from tolerances import assert_close

# What the quadrature is asked for, and what Gauss-Hermite products of 24 nodes reach at these spreads.
TOLERANCE = 1e-8


def covariance(rng, n, features, size=0.05):
    x = rng.normal(size=(n, features))
    return size * (0.3 + x @ x.T / features)


def gauss_hermite(function, K, labels, signature, order=24):
    """The same average on the full grid of a Cholesky factor."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    root = np.linalg.cholesky(K[np.ix_(labels, labels)])
    u = np.stack(np.meshgrid(*[nodes] * 4, indexing="ij"))
    w = np.einsum("a,b,c,d->abcd", *[weights / weights.sum()] * 4)
    z = np.einsum("ab,b...->a...", root, u)
    tower = [function]
    for _ in range(3):
        tower.append(jax.grad(tower[-1]))
    value = w
    for factor, k in enumerate(signature):
        value = value * np.asarray(jax.vmap(tower[k])(z[factor].ravel())).reshape(value.shape)
    return value.sum()


def softplus(z):
    return jnp.logaddexp(0.0, z)


@pytest.mark.parametrize(("function", "features"), [(jnp.tanh, 2), (softplus, 6)])
def test_four_inputs_agree_with_a_product_of_gauss_rules(rng, function, features):
    K = covariance(rng, 4, features) + 1e-6 * np.eye(4)
    four = four_point_averages(function, K, TOLERANCE)
    for signature, labels in zip(SIGNATURES, itertools.permutations(range(4)), strict=False):
        expected = gauss_hermite(function, K, labels, signature)
        scale = np.abs(four[signature]).max()
        assert_close(four[signature][labels], expected, TOLERANCE, scale=scale)


def test_independent_inputs_have_products_of_averages():
    variances = np.array([0.3, 1.1, 2.0, 0.7])
    four = four_point_averages(lambda z: jnp.tanh(z + 0.4), np.diag(variances), TOLERANCE)
    u, w = np.polynomial.hermite_e.hermegauss(200)
    mean = np.tanh(0.4 + np.sqrt(variances)[:, None] * u) @ w / w.sum()
    assert_close(four[0, 0, 0, 0][0, 1, 2, 3], np.prod(mean), TOLERANCE)


def test_polynomials_have_the_moments_of_isserlis(rng):
    K = covariance(rng, 5, 3, size=1.0)
    four = four_point_averages(lambda z: 1.0 * z, K, TOLERANCE)
    pairs = lambda s: np.einsum(s, K, K)
    isserlis = pairs("ab,cd->abcd") + pairs("ac,bd->abcd") + pairs("ad,bc->abcd")
    assert_close(four[0, 0, 0, 0], isserlis, TOLERANCE)


@pytest.mark.parametrize("features", [2, 4, 30])
def test_what_inputs_have_to_themselves_leaves_a_covariance(rng, features):
    K = np.stack([covariance(rng, 4, features) for _ in range(20)])
    own = own_variances(K)
    shared = np.linalg.eigvalsh(K - own[:, :, None] * np.eye(4))
    assert (own >= 0).all()
    assert shared.min() > -1e-12
    # The largest own variances leave at least one axis with nothing shared along it.
    assert (shared[:, 0] < 1e-7).all()


def test_independent_inputs_share_nothing():
    K = np.diag([0.3, 1.1, 2.0, 0.7])[None]
    assert_close(own_variances(K)[0], np.diag(K[0]), 1e-8)
