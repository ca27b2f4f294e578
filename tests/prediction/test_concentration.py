import numpy as np
import pytest
from scipy.stats import binom

import finitewidth as fw
from finitewidth.prediction.selection.concentration import Bernstein, kernel_concentration
from tolerances import assert_close


def test_sums_of_signs_stay_below_the_tail():
    """One dimension, exactly: the sum of 100 signs."""
    t = np.arange(2.0, 60.0, 2.0)
    exact = 2 * binom.sf((100 + t) // 2, 100, 0.5)
    bound = Bernstein(1, 1.0, 100.0).tail(t)
    assert (exact <= bound).all()
    assert (exact > (bound / 2) ** 2)[bound < 1].any()


def test_diagonal_matrices_of_signs_stay_below_the_tail():
    """m independent sums of n signs: P(max > t) = 1 - (1 - p)^m, known exactly."""
    m, n = 20, 100
    t = np.arange(2.0, 60.0, 2.0)
    exact = 1 - (1 - 2 * binom.sf((n + t) // 2, n, 0.5)) ** m
    assert (exact <= Bernstein(m, 1.0, n).tail(t)).all()


@pytest.mark.parametrize("probability", [1.0, 0.05, 1e-6])
def test_distance_inverts_the_tail(probability):
    law = Bernstein(7, 0.3, 2.0)
    assert_close(law.tail(np.array([law.distance(probability)])), np.array([probability]))


def test_bounds_of_a_kernel_hold_term_by_term(rng):
    """Each neuron's share is at most R from its mean, and the summed squares are at most U."""
    m, n, draws = 6, 50, 20_000
    x = rng.normal(size=(m, 3))
    mean = np.asarray(fw.kernels(fw.MLP((1,), "sin", 0.0, 1.0), x).nngp)
    law = kernel_concentration(mean, n)
    s = np.sin(rng.normal(size=(draws, 3)) @ x.T / np.sqrt(3))
    terms = (s[:, :, None] * s[:, None, :] - mean) / n
    assert np.linalg.norm(terms, 2, axis=(1, 2)).max() <= law.largest
    squares = n * np.mean(terms @ terms, axis=0)
    assert np.linalg.norm(squares, 2) <= law.variance
    assert law.dimension == m


def test_neurons_that_are_on_together_have_the_variance_of_the_bound():
    """Of m equal inputs and neurons that are 1 with probability p the kernel is a count, times ones."""
    m, n, p = 6, 50, 0.01
    law = kernel_concentration(np.full((m, m), p), n)
    variance_of_the_norm = m**2 * p * (1 - p) / n
    assert_close(law.variance * (1 - p), variance_of_the_norm)
    count = binom(n, p)
    distance = law.distance(1e-3)
    beyond = count.sf(n * (p + distance / m) - 1e-9) + count.cdf(n * (p - distance / m) + 1e-9)
    assert beyond <= 1e-3


def test_impossible_arguments_are_refused():
    with pytest.raises(ValueError, match="probability must be above 0 and at most 1, got 2"):
        Bernstein(1, 1.0, 1.0).distance(2)
    with pytest.raises(ValueError, match="width must be at least 1, got 0"):
        kernel_concentration(np.eye(2), 0)
