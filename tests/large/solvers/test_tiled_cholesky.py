"""A Cholesky factor in tiles against the dense one."""

import numpy as np
import pytest

from finitewidth.large.solvers.pcg import conjugate_gradients
from finitewidth.large.solvers.tiled_cholesky import factor_bytes, tiled_cholesky
from large.solvers.test_iterative import Tiled
from tolerances import assert_close


@pytest.fixture
def kernel(rng):
    x = rng.normal(size=(90, 4))
    return np.exp(-0.3 * np.sum((x[:, None] - x) ** 2, axis=-1))


@pytest.mark.parametrize("size", [16, 45, 90])
@pytest.mark.parametrize("threads", [1, 2])
def test_tiles_are_those_of_the_dense_factor(kernel, rng, tmp_path, size, threads):
    shares = []
    found = tiled_cholesky(Tiled(kernel, size), 0.1, tmp_path, threads=threads, on_row=shares.append)
    dense = np.linalg.cholesky(kernel + 0.1 * np.eye(90)).T
    for i in range(-(-90 // size)):
        for j in range(i, -(-90 // size)):
            assert_close(np.triu(found.tile(i, j), (i - j) * size), dense[found.rows(i), found.rows(j)])
    right = rng.normal(size=(90, 3))
    assert_close(found.solve(right), np.linalg.solve(kernel + 0.1 * np.eye(90), right), 1e-9)
    half = found.half_solve(right)
    assert_close(half.T @ half, right.T @ found.solve(right), 1e-9)
    assert shares == sorted(shares)
    assert shares[-1] == 1
    kept = sum(file.stat().st_size for file in tmp_path.iterdir())
    assert kept <= factor_bytes(90, size, 8) + 128 * len(list(tmp_path.iterdir()))


def test_a_single_precision_factor_leaves_two_iterations(kernel, rng, tmp_path):
    factor = tiled_cholesky(Tiled(kernel.astype(np.float32), 32), 1e-2, tmp_path)
    matrix = kernel.astype(np.float32).astype(float) + 1e-2 * np.eye(90)
    right = rng.normal(size=(90, 2))
    found = conjugate_gradients(lambda V, *, precise: matrix @ V, right, factor.solve, 1e-8)
    assert found.converged
    assert found.iterations <= 3
    assert_close(found.x, np.linalg.solve(matrix, right), 1e-6)


def test_a_matrix_that_is_not_positive_is_refused(tmp_path):
    with pytest.raises(np.linalg.LinAlgError):
        tiled_cholesky(Tiled(np.diag([1.0, -1.0, 1.0]), 2), 0.5, tmp_path)
