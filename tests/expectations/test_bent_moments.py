"""Averages at two points where the curvature jumps: against quadrature between kinks with explicit deltas."""

import numpy as np
import pytest

from finitewidth.architecture.activations import as_activation
from finitewidth.expectations.kinked.bent import bent_pairs
from finitewidth.expectations.kinked.bent_moments import BentMoments
from finitewidth.statistics.first_order.bent_neurons import bent_averages
from tolerances import TENSORS, assert_close

ELU = as_activation("elu")
PAIRS = [(0, 0), (1, 1), (2, 0), (2, 2), (3, 1), (4, 0), (3, 3), (4, 2), (5, 1)]


@pytest.fixture
def K(rng):
    x = rng.normal(size=(4, 3))
    return x @ x.T / 3 + 0.2


@pytest.mark.parametrize(("k", "l"), PAIRS)
def test_different_points_have_all_point_masses(K, k, l):
    apart = ~np.eye(len(K), dtype=bool)
    expected = bent_pairs(ELU.function, K, 1e-8)[k, l]
    assert_close(BentMoments(ELU.function, K, 1e-10).pair(k, l)[apart], expected[apart], TENSORS)


def test_one_point_has_the_means_and_sums_that_exist(K):
    K = K[:2, :2]  # means of four neurons are slow at more points
    expected = bent_averages(ELU, K, 1e-8, passed_on=True).pair
    moments = BentMoments(ELU.function, K, 1e-10)
    for k, l in [(2, 0), (2, 2), (3, 1), (4, 0)]:
        assert_close(np.diag(moments.pair(k, l)), np.diag(expected[k, l]), TENSORS)
    total = lambda M: np.diag(M(5, 1) + 4 * M(4, 2) + 3 * M(3, 3))
    assert_close(total(moments.pair), total(lambda k, l: expected[k, l]), TENSORS)
    assert_close(moments((1, 3), ())[:, 0], np.diag(expected[3, 1]), TENSORS)


def test_equal_points_are_one_point(K):
    twice = K[np.ix_([0, 1, 0], [0, 1, 0])]
    moments = BentMoments(ELU.function, twice)
    for k, l in PAIRS:
        assert_close(moments.pair(k, l)[0, 2], moments.pair(k, l)[0, 0])


def test_a_jump_of_the_slope_is_refused(K):
    with pytest.raises(ValueError, match="slope of the activation jumps by 1"):
        BentMoments(as_activation("relu").function, K)
