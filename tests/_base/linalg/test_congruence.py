"""Symmetric products against plain ones."""

import numpy as np
import pytest

from finitewidth._base.linalg.congruence import congruence, congruence_diagonal
from tolerances import assert_close


def _positive(rng, n):
    root = rng.normal(size=(n, n))
    return root @ root.T


@pytest.mark.parametrize("n", [5, 512, 700])
def test_congruence_is_the_product_and_symmetric(rng, n):
    V, K = rng.normal(size=(n, n)), _positive(rng, n)
    found = congruence(V, K)
    assert_close(found, V.T @ K @ V)
    assert (found == found.T).all()


def test_the_diagonal_alone(rng):
    V, M, gain = rng.normal(size=(40, 60)), _positive(rng, 60), rng.uniform(size=60)
    assert_close(congruence_diagonal(V, M, gain), np.diag((V * gain) @ M @ (V * gain).T))


def test_single_precision_of_many_rows_keeps_six_digits_of_each(rng):
    """Gains over ten decades, as those of modes far above and far below a ridge."""
    n = 1_100
    V = np.linalg.qr(rng.normal(size=(n, n)))[0]
    gain, root = 10.0 ** rng.uniform(-10, 0, n), rng.normal(size=(n, 30))
    M = root @ root.T + np.eye(n)
    exact = np.sum(((V * gain) @ M) * (V * gain), axis=1)
    np.testing.assert_allclose(congruence_diagonal(V, M, gain), exact, rtol=3e-6)


def test_double_precision_of_many_rows_where_it_is_asked_for(rng):
    n = 1_100
    V, gain, root = rng.normal(size=(n, 40)), rng.uniform(size=40), rng.normal(size=(40, 5))
    M = root @ root.T
    exact = np.sum(((V * gain) @ M) * (V * gain), axis=1)
    assert_close(congruence_diagonal(V, M, gain, precise=True), exact)
