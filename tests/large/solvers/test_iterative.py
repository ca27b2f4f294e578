"""Solvers that see a matrix by its products and columns, against dense ones."""

import numpy as np
import pytest

from finitewidth.large.solvers.packed import packed_product
from finitewidth.large.solvers.pcg import conjugate_gradients
from finitewidth.large.solvers.rpcholesky import Preconditioner, pivoted_cholesky
from tolerances import assert_close


class Tiled:
    """A matrix whose tiles below the diagonal must not be asked for."""

    def __init__(self, matrix, size):
        self.matrix, self.n, self.size, self.dtype = matrix, len(matrix), size, matrix.dtype

    def tile(self, i, j):
        assert i <= j
        s = self.size
        return self.matrix[i * s : (i + 1) * s, j * s : (j + 1) * s]


@pytest.fixture
def kernel(rng):
    """A smooth kernel on a line: eigenvalues fall by decades."""
    x = np.sort(rng.uniform(0, 3, 300))
    return np.exp(-((x[:, None] - x) ** 2))


@pytest.mark.parametrize("size", [7, 100, 300])
@pytest.mark.parametrize("threads", [1, 2])
def test_products_with_packed_tiles(kernel, rng, size, threads):
    V = rng.normal(size=(300, 3))
    assert_close(packed_product(Tiled(kernel, size), V, threads=threads), kernel @ V)


def test_single_tiles_with_precise_products(kernel, rng):
    single, V = Tiled(kernel.astype(np.float32), 64), rng.normal(size=(300, 2))
    exact = kernel.astype(np.float32).astype(float) @ V
    assert_close(packed_product(single, V, precise=True), exact)
    rough = packed_product(single, V)
    assert 1e-9 < np.abs(rough - exact).max() / np.abs(exact).max() < 1e-5


def test_a_factor_of_full_rank_is_the_matrix(rng):
    root = rng.normal(size=(60, 60))
    matrix = root @ root.T
    found = pivoted_cholesky(lambda rows: matrix[:, rows], np.diag(matrix), 60, rng)
    assert len(set(found.pivots.tolist())) == 60
    assert_close(found.factor @ found.factor.T, matrix, 1e-9)
    assert found.left.max() < 1e-9 * np.diag(matrix).max()


def test_a_factor_leaves_the_diagonal_it_says_and_knows_its_pivots(kernel, rng):
    found = pivoted_cholesky(lambda rows: kernel[:, rows], np.diag(kernel), 5, rng)
    rest = kernel - found.factor @ found.factor.T
    assert found.factor.shape == (300, 5)
    assert_close(found.left, np.diag(rest), 1e-9)
    assert np.abs(rest[found.pivots]).max() < 1e-7
    # Drawn pivots come close to the best approximation of that rank.
    best = np.sort(np.linalg.eigvalsh(kernel))[:-5].sum()
    assert found.left.sum() < 20 * best
    # Rounding ends it long before the rank that was asked for.
    assert len(pivoted_cholesky(lambda rows: kernel[:, rows], np.diag(kernel), 250, rng).pivots) < 60


@pytest.mark.parametrize("ridge", [1e-6, 10.0])
def test_the_preconditioner_is_the_inverse_of_factor_and_shift(kernel, rng, ridge):
    found = pivoted_cholesky(lambda rows: kernel[:, rows], np.diag(kernel), 5, rng)
    shift = max(ridge, found.left.mean())
    expected = np.linalg.inv(found.factor @ found.factor.T + shift * np.eye(300))
    chosen = Preconditioner.of(found, ridge)
    assert_close(chosen.solve(np.eye(300)), expected, 1e-8)


def _system(kernel, ridge, dtype=float):
    rounded = kernel.astype(dtype)

    def product(V, *, precise):
        kind = float if precise else dtype
        return np.asarray(rounded.astype(kind) @ V.astype(kind), float) + ridge * V

    return product, rounded.astype(float) + ridge * np.eye(len(kernel))


def test_solutions_are_those_of_a_dense_solver(kernel, rng):
    product, matrix = _system(kernel, 1e-2)
    right = np.concatenate([rng.normal(size=(300, 2)), np.zeros((300, 1))], axis=1)
    low_rank = pivoted_cholesky(lambda rows: kernel[:, rows], np.diag(kernel), 8, rng)
    found = conjugate_gradients(product, right, Preconditioner.of(low_rank, 1e-2).solve, 1e-10)
    assert found.converged
    assert_close(found.x, np.linalg.solve(matrix, right), 1e-7)
    # What is left of the solution is as large as the rounding of matrix times x.
    assert np.abs(found.remainder - (right - matrix @ found.x)).max() < 1e-11
    plain = conjugate_gradients(product, right, lambda r: r, 1e-10)
    assert plain.converged
    assert found.iterations < plain.iterations
    again = conjugate_gradients(product, right, lambda r: r, 1e-10, start=found.x)
    assert again.iterations == 0


def test_columns_leave_the_block_when_they_have_reached_their_own_tolerance(kernel, rng):
    product, matrix = _system(kernel, 1e-2)
    widths = []

    def counted(V, *, precise):
        widths.append(V.shape[1])
        return product(V, precise=precise)

    right, tolerance = rng.normal(size=(300, 6)), np.repeat([1e-8, 1e-1], [2, 4])
    found = conjugate_gradients(counted, right, lambda r: r, tolerance)
    true = np.linalg.norm(right - matrix @ found.x, axis=0) / np.linalg.norm(right, axis=0)
    assert (true <= tolerance).all()
    # Columns of a loose tolerance are not solved better than asked for, and cost nothing at the end.
    assert (true[2:] > 1e-4).all()
    assert (widths[0], widths[-2]) == (6, 2)
    assert widths[-1] == 6


def test_residuals_are_true_where_single_precision_is_not_enough(kernel, rng):
    """The recursive residual falls below any bound; the true one needs restarts, or double precision."""
    product, matrix = _system(kernel, 1e-3, np.float32)
    right = rng.normal(size=(300, 2))
    found = conjugate_gradients(product, right, lambda r: r, 1e-9)
    true = np.linalg.norm(right - matrix @ found.x, axis=0) / np.linalg.norm(right, axis=0)
    assert found.converged
    assert (true <= 1e-9).all()
    # |b - A x| of 1e-9 |b| is known to the rounding of A x, which is as large as |A| |x|.
    np.testing.assert_allclose(found.residuals, true, rtol=0, atol=1e-10)
    ended = conjugate_gradients(product, right, lambda r: r, 1e-9, most=5)
    assert not ended.converged
    assert ended.iterations == 5
    assert (ended.residuals > 1e-9).all()
