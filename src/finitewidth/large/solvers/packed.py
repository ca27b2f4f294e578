"""Products with symmetric matrices of which only the tiles on and above the diagonal are at hand."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float
from threadpoolctl import threadpool_limits


@runtime_checkable
class Tiles(Protocol):
    """A symmetric matrix in square tiles (i, j), i <= j; those at the edge may be smaller."""

    n: int
    size: int
    dtype: np.dtype

    def tile(self, i: int, j: int) -> np.ndarray:
        """Rows of tile row i and columns of tile column j."""
        ...


def packed_product(
    tiles: Tiles,
    V: Float[np.ndarray, "n k"],
    *,
    precise: bool = False,
    threads: int = 1,
    on_row: Callable[[], None] = lambda: None,
) -> Float[np.ndarray, "n k"]:
    """The matrix times V, every tile read once and used twice.

    Tiles multiply in their own precision, or in double precision with `precise`; sums over tiles are double.
    They are added in the same order, however many threads there are.
    """
    starts = range(0, tiles.n, tiles.size)
    dtype = np.dtype(float) if precise else tiles.dtype
    right = np.ascontiguousarray(V, dtype)
    total = np.zeros(V.shape)

    def row(i: int) -> tuple[int, np.ndarray]:
        """What the tiles of row i add to rows i and below."""
        first = starts[i]
        found = np.zeros((tiles.n - first, V.shape[1]))
        own = right[first : first + tiles.size]
        for j in range(i, len(starts)):
            tile = np.asarray(tiles.tile(i, j), dtype)
            columns = slice(starts[j], starts[j] + tiles.size)
            found[: len(own)] += tile @ right[columns]
            if j > i:
                found[columns.start - first : columns.stop - first] += tile.T @ own
        return first, found

    for first, found in _in_order(row, len(starts), threads):
        total[first:] += found
        on_row()
    return total


def _in_order(row: Callable, count: int, threads: int) -> Iterator:
    """Results of row 0, 1, ... while at most two for each thread are under way or wait."""
    if threads == 1:
        yield from map(row, range(count))
        return
    # Threads of BLAS under these threads would wait for each other.
    with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        ahead = [pool.submit(row, i) for i in range(min(2 * threads, count))]
        for i in range(count):
            future = ahead.pop(0)
            if i + 2 * threads < count:
                ahead.append(pool.submit(row, i + 2 * threads))
            yield future.result()
