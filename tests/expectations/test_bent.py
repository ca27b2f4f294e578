"""Averages over cones: against closed forms of piecewise linear activations and against exact moments."""

import itertools

import numpy as np
import pytest

from finitewidth.architecture.activations import as_activation
from finitewidth.expectations.kinked.bent import bent_four_point, bent_pairs
from finitewidth.expectations.kinked.cones import cone_grid, cones, thin_root
from finitewidth.expectations.kinked.piecewise_linear import Slopes, kinked_four_point, kinked_pairs
from tolerances import CLOSED_FORM, SERIES, assert_close

SLOPES = Slopes(0.3, 1.0)


def gram(rng, n, dimension):
    x = rng.normal(size=(n, dimension))
    return x @ x.T / dimension


@pytest.mark.parametrize(("n", "dimension"), [(1, 3), (2, 3), (3, 2), (3, 4), (4, 2), (4, 3), (4, 5)])
def test_cones_fill_space_and_stay_on_one_side(rng, n, dimension):
    root = thin_root(gram(rng, n, dimension))
    assert root.shape[1] == min(n, dimension)
    grid = cone_grid(root, radial=40, angular=14, tolerance=1e-12)
    second = (grid.nodes * grid.weights[:, None]).T @ grid.nodes
    assert_close(grid.weights.sum(), 1.0, SERIES)
    assert_close(second, np.eye(root.shape[1]), SERIES)
    for cone in cones(root):
        side = np.sign(np.where(np.abs(cone @ root.T) < 1e-9, 0.0, cone @ root.T))
        assert (side.max(axis=0) - side.min(axis=0) < 2).all()


def test_pairs_with_delta_functions(rng):
    """All orders that the closed form of a piecewise linear activation knows."""
    K = gram(rng, 3, 4)
    found, exact = bent_pairs(as_activation("leaky_relu:0.3").function, K, 1e-10), kinked_pairs(SLOPES, K)
    off = ~np.eye(3, dtype=bool)
    for k, l in itertools.product(range(6), repeat=2):
        if (k + l) % 2 == 0 and k + l <= 6:
            assert_close(found[k, l][off], exact[k, l][off], CLOSED_FORM)


@pytest.mark.parametrize("dimension", [2, 3, 8])
def test_four_factors_of_a_piecewise_linear_activation(rng, dimension):
    K = gram(rng, 4, dimension)
    found = bent_four_point(as_activation("leaky_relu:0.3").function, K, SERIES)
    for signature, exact in kinked_four_point(SLOPES, K).items():
        assert_close(found[signature], exact, SERIES)
