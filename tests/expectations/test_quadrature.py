"""The one-dimensional rule behind every series: moments, orthogonality, steep and kinked functions."""

import math

import numpy as np
import pytest
from scipy import special

from finitewidth.expectations.quadrature import gaussian_rule, hermite_projector
from tolerances import assert_close


@pytest.mark.parametrize("terms", [8, 64, 1024])
def test_moments_of_the_gaussian(terms):
    nodes, weights = gaussian_rule(terms)
    moments = [weights @ nodes ** (2 * p) for p in range(10)]
    assert_close(moments, [math.prod(range(1, 2 * p, 2)) for p in range(10)], elementwise=True)
    assert abs(weights @ nodes**3) < 1e-14


@pytest.mark.parametrize("terms", [8, 64, 1024])
def test_half_line_moments(terms):
    """A kink at zero lies on a panel's end, so half-line moments are as exact as whole ones."""
    nodes, weights = gaussian_rule(terms)
    moments = [weights @ np.maximum(nodes, 0) ** p for p in range(1, 8)]
    assert_close(
        moments,
        [2 ** (p / 2 - 1) * math.gamma((p + 1) / 2) / math.sqrt(math.pi) for p in range(1, 8)],
        elementwise=True,
    )


@pytest.mark.parametrize("q", [1.0, 1e2, 1e4, 1e6])
def test_steep_functions(q):
    """<erf^2> = (2/pi) arcsin(2q/(1+2q)) and <erf'^2> = (4/pi)/sqrt(1+4q), up to a variance of a million."""
    nodes, weights = gaussian_rule()
    z = np.sqrt(q) * nodes
    assert_close(weights @ special.erf(z) ** 2, 2 / np.pi * np.arctan2(2 * q, np.sqrt(1 + 4 * q)))
    assert_close(weights @ np.exp(-2 * z**2), 1 / np.sqrt(1 + 4 * q))


@pytest.mark.parametrize("terms", [1, 2, 12, 96, 768])
def test_projector_is_dual_to_the_polynomials(terms):
    """E[h_j h_k] = delta_jk for polynomials j that have died out where the rule ends."""
    projector, rule = hermite_projector(terms), gaussian_rule(terms)
    assert projector.shape == (rule.nodes.size, terms)
    low = min(terms, 5)
    normalised = np.diag([1 / math.sqrt(math.factorial(j)) for j in range(low)])
    polynomials = np.polynomial.hermite_e.hermeval(rule.nodes, normalised)
    assert_close(polynomials @ projector, np.eye(low, terms))


def test_projector_of_high_order():
    """E[exp(-u^2) h_k] in closed form up to order 4095."""
    terms = 4096
    found = np.exp(-(gaussian_rule(terms).nodes ** 2)) @ hermite_projector(terms)
    expected = np.zeros(terms)
    expected[0] = 1 / np.sqrt(3)
    for k in range(2, terms, 2):
        expected[k] = -expected[k - 2] * (2 / 3) * np.sqrt((k - 1) / k)
    assert_close(found, expected)


def test_coefficients_of_a_kink_at_high_order():
    """E[relu(u) h_k] from its recursion c_(k+2) / c_k = -(k - 1) / sqrt((k + 1)(k + 2))."""
    terms = 4096
    found = np.maximum(gaussian_rule(terms).nodes, 0) @ hermite_projector(terms)
    expected = np.zeros(terms)
    expected[:3] = 1 / np.sqrt(2 * np.pi), 0.5, 1 / np.sqrt(4 * np.pi)
    for k in range(2, terms - 2, 2):
        expected[k + 2] = -expected[k] * (k - 1) / np.sqrt((k + 1) * (k + 2))
    assert_close(found, expected)
