"""Lanczos' method against dense eigenvalues."""

import numpy as np
import pytest

from finitewidth._base.linalg.lanczos import extreme_pairs, quadrature
from tolerances import SOLVE, assert_close


def symmetric(values, seed=0):
    """A matrix with these eigenvalues, and its eigenvectors."""
    turn = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(values), len(values))))[0]
    return turn * values @ turn.T, turn


SETTINGS = {"count": 3, "extra": 2, "tolerance": 1e-9, "least_steps": 20, "most_steps": 500, "basis": 15}


@pytest.mark.parametrize("basis", [15, 200])
def test_largest_pairs_with_and_without_restarts(basis, rng):
    values = np.concatenate([rng.uniform(-1, 1, 117), [2.0, 3.0, 3.1]])
    matrix, turn = symmetric(values)
    found = extreme_pairs(
        matrix.dot, rng.normal(size=120), lambda v: np.argsort(-v), **{**SETTINGS, "basis": basis}
    )
    assert found.converged
    assert_close(found.values, [3.1, 3.0, 2.0], SOLVE)
    exact = matrix @ found.vectors - found.values * found.vectors
    assert (np.linalg.norm(exact, axis=0) <= found.residuals + 1e-14).all()
    assert (found.residuals < 1e-9 * found.values).all()
    assert_close(np.abs(np.sum(found.vectors * turn[:, [119, 118, 117]], axis=0)), np.ones(3), SOLVE)


def test_the_stated_residual_is_the_real_one(rng):
    """In the middle of an iteration, where it is far from zero."""
    matrix, _ = symmetric(rng.uniform(-1, 1, 120))
    found = extreme_pairs(
        matrix.dot, rng.normal(size=120), lambda v: np.argsort(-v), **{**SETTINGS, "most_steps": 22}
    )
    assert not found.converged
    exact = np.linalg.norm(matrix @ found.vectors - found.values * found.vectors, axis=0)
    assert exact.min() > 1e-4
    assert_close(found.residuals, exact, SOLVE)


def test_more_pairs_than_a_matrix_of_low_rank_has(rng):
    factor = rng.normal(size=(50, 2))
    found = extreme_pairs(
        lambda v: factor @ (factor.T @ v),
        rng.normal(size=50),
        lambda v: np.argsort(-v),
        **{**SETTINGS, "count": 4},
    )
    expected = [*np.sort(np.linalg.svd(factor, compute_uv=False) ** 2)[::-1], 0, 0]
    assert_close(found.values, expected, SOLVE)
    assert_close(found.vectors.T @ found.vectors, np.eye(4), SOLVE)


def test_a_matrix_of_zeros(rng):
    found = extreme_pairs(lambda v: 0 * v, rng.normal(size=8), lambda v: np.argsort(-v), **SETTINGS)
    assert_close(found.values, np.zeros(3), scale=1)


def test_the_quadrature_is_exact_for_polynomials(rng):
    matrix, _ = symmetric(rng.uniform(-1, 2, 30))
    start = rng.normal(size=30)
    nodes, weights = quadrature(matrix.dot, start, 4)
    for power in range(8):
        expected = start @ np.linalg.matrix_power(matrix, power) @ start
        assert_close(np.sum(weights * nodes**power), expected, SOLVE)
    wrong = np.sum(weights * nodes**8)
    assert abs(wrong - start @ np.linalg.matrix_power(matrix, 8) @ start) > 1e-6 * abs(wrong)


def test_a_quadrature_that_ends_early(rng):
    """Two distinct eigenvalues have two nodes; the others weigh nothing."""
    matrix, _ = symmetric(np.repeat([1.0, 3.0], [7, 3]))
    start = rng.normal(size=10)
    nodes, weights = quadrature(matrix.dot, start, 5)
    assert_close(np.sort(nodes[weights > 1e-20]), [1.0, 3.0], SOLVE)
    assert_close(weights.sum(), start @ start)


def test_single_precision_ends_at_its_rounding(rng):
    """A tolerance below it is met as well as it can be."""
    matrix, _ = symmetric(rng.uniform(-1, 1, 120))
    single = matrix.astype(np.float32)
    found = extreme_pairs(
        single.dot, rng.normal(size=120).astype(np.float32), np.argsort, **{**SETTINGS, "basis": 60}
    )
    assert found.converged
    assert found.vectors.dtype == np.float32
    assert 1e-9 < found.residuals.max() < 1e-5
