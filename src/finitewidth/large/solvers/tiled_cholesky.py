r"""The Cholesky factor of a symmetric matrix in tiles, itself in tiles on disk: $A + r = U^TU$.

It costs $n^3/3$ multiplications, whatever it is used for, so it pays where there are many right-hand sides.
In single precision it is a preconditioner that leaves conjugate gradients an iteration or two.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from jaxtyping import Float
from scipy.linalg import cholesky, solve_triangular
from threadpoolctl import threadpool_limits

from finitewidth.large.solvers.packed import Tiles


class TiledFactor:
    """U in tiles (i, j), i <= j, each a file in a folder that is mapped into memory where it is touched."""

    def __init__(self, folder: Path, n: int, size: int, dtype: np.dtype):
        self.folder, self.n, self.size, self.dtype = folder, n, size, np.dtype(dtype)
        self.starts = range(0, n, size)

    def rows(self, i: int) -> slice:
        """Rows of the matrix in row i of tiles."""
        return slice(self.starts[i], min(self.starts[i] + self.size, self.n))

    def tile(self, i: int, j: int) -> np.ndarray:
        """Rows of tile row i and columns of tile column j."""
        return np.load(self._file(i, j), mmap_mode="r")

    def keep(self, i: int, j: int, values: np.ndarray) -> None:
        """Write a tile."""
        np.save(self._file(i, j), np.ascontiguousarray(values, self.dtype))

    def _file(self, i: int, j: int) -> Path:
        return self.folder / f"{i}-{j}.npy"

    def half_solve(self, right: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """U^-T times `right`: its Gram matrix is right^T (A + r)^-1 right."""
        found = np.array(right, self.dtype)
        for i in range(len(self.starts)):
            own = self.rows(i)
            found[own] = solve_triangular(self.tile(i, i), found[own], trans=1, check_finite=False)
            for j in range(i + 1, len(self.starts)):
                found[self.rows(j)] -= self.tile(i, j).T @ found[own]
        return found

    def solve(self, right: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """(A + r)^-1 times `right`, as exact as the precision of the tiles."""
        found = self.half_solve(right)
        for i in reversed(range(len(self.starts))):
            own = self.rows(i)
            for j in range(i + 1, len(self.starts)):
                found[own] -= self.tile(i, j) @ found[self.rows(j)]
            found[own] = solve_triangular(self.tile(i, i), found[own], check_finite=False)
        return found.astype(float)


def factor_bytes(n: int, size: int, itemsize: int) -> int:
    """Room on disk that a factor takes."""
    count = -(-n // size)
    return count * (count + 1) // 2 * size**2 * itemsize


def tiled_cholesky(
    tiles: Tiles,
    ridge: float,
    folder: Path,
    *,
    threads: int = 1,
    on_row: Callable[[float], None] = lambda share: None,
) -> TiledFactor:
    r"""Factorise $A + r$, row by row of tiles: $S_{ij} = A_{ij} - \sum_{k<i} U_{ki}^TU_{kj}$.

    Parameters
    ----------
    tiles
        A.
    ridge
        r, added to the diagonal.
    folder
        An empty directory for the tiles of U.
    threads
        Tiles of one row that are worked on at a time.
    on_row
        Called with the share of the work that is done.

    Raises
    ------
    numpy.linalg.LinAlgError
        Where A + r is not positive definite in this precision.
    """
    factor = TiledFactor(folder, tiles.n, tiles.size, tiles.dtype)
    count = len(factor.starts)

    def rest(i: int, j: int) -> np.ndarray:
        block = np.array(tiles.tile(i, j))
        for k in range(i):
            block -= factor.tile(k, i).T @ factor.tile(k, j)
        return block

    with threadpool_limits(1 if threads > 1 else None, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        for i in range(count):
            own = rest(i, i)
            own[np.diag_indices(len(own))] += ridge
            upper = cholesky(own, check_finite=False)
            factor.keep(i, i, upper)

            def place(j: int, i: int = i, upper: np.ndarray = upper) -> None:
                factor.keep(i, j, solve_triangular(upper, rest(i, j), trans=1, check_finite=False))

            list(pool.map(place, range(i + 1, count)))
            # Row i takes (count - i) tiles with i products each.
            on_row(1 - ((count - i - 1) / count) ** 2 * (1 + 2 * (i + 1) / count))
    return factor
