r"""Randomly pivoted Cholesky: a positive matrix known by its columns, approximated by few of them.

$K \approx F F^T$ with columns drawn in proportion to the diagonal of what is left, $K - FF^T$. A block of
proposals is drawn at once and thinned by rejection, so that the pivots have the law of one draw after the
other.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cholesky, eigh, solve_triangular

_BLOCK = 128
_ROWS = 8192
# What is left of the diagonal, relative to it, in units of rounding: no column below is known.
_ROUNDING = 100


class LowRank(NamedTuple):
    """F (n, k), the diagonal that it leaves (n,), and the columns of the matrix it was made of (k,)."""

    factor: Float[np.ndarray, "n k"]
    left: Float[np.ndarray, " n"]
    pivots: Int[np.ndarray, " k"]


def pivoted_cholesky(
    columns: Callable[[np.ndarray], np.ndarray],
    diagonal: Float[np.ndarray, " n"],
    rank: int,
    rng: np.random.Generator,
    on_columns: Callable[[int], None] = lambda count: None,
) -> LowRank:
    """At most `rank` columns; fewer where rounding is all that is left.

    Parameters
    ----------
    columns
        Columns of the matrix by their numbers, (n, k).
    diagonal
        Its diagonal.
    rank
        Columns of the factor at most.
    rng
        Draws the pivots.
    on_columns
        Called with the number of columns so far.
    """
    diagonal = np.asarray(diagonal, float)
    factor: np.ndarray | None = None
    left, pivots = diagonal.copy(), np.empty(0, int)
    while len(pivots) < rank:
        proposed = rng.choice(len(left), _BLOCK, p=left / left.sum())
        # Once each: a second draw of a pivot finds nothing left of it.
        proposed = proposed[np.sort(np.unique(proposed, return_index=True)[1])]
        block = columns(proposed)
        if factor is None:
            factor = np.empty((len(left), rank), block.dtype)
        known = factor[:, : len(pivots)]
        small = np.asarray(block[proposed], float) - np.asarray(known[proposed], float) @ known[proposed].T
        accepted = _thinned(small, rng)[: rank - len(pivots)]
        pivot = proposed[accepted]
        rest = block[:, accepted] - known @ known[pivot].T
        core = small[np.ix_(accepted, accepted)]
        try:
            upper = cholesky(core + np.finfo(block.dtype).eps * diagonal.max() * np.eye(len(core)))
        except np.linalg.LinAlgError:
            break
        new = solve_triangular(upper, rest.T, trans=1).T
        factor[:, len(pivots) : len(pivots) + len(pivot)] = new
        left = np.maximum(left - np.sum(np.square(new, dtype=float), axis=1), 0)
        left[pivot] = 0
        pivots = np.concatenate([pivots, pivot])
        on_columns(len(pivots))
        if left.mean() <= _ROUNDING * np.finfo(block.dtype).eps * diagonal.mean():
            break
    assert factor is not None
    return LowRank(factor[:, : len(pivots)], left, pivots)


def _thinned(block: Float[np.ndarray, "k k"], rng: np.random.Generator) -> Int[np.ndarray, " accepted"]:
    """Proposals that stay: each with the share of its diagonal that those before it have left."""
    block = block.copy()
    first, accepted = np.diag(block).copy(), []
    for i in range(len(block)):
        if first[i] > 0 and rng.uniform() * first[i] < block[i, i]:
            accepted.append(i)
            column = block[:, i] / np.sqrt(block[i, i])
            block -= np.outer(column, column)
    return np.array(accepted, int)


class Preconditioner(NamedTuple):
    r"""$(FF^T+\mu)^{-1} = \frac1\mu(1 - U\,\frac{s^2}{s^2+\mu}\,U^T)$ with $F = U s W^T$."""

    basis: Float[np.ndarray, "n k"]
    squares: Float[np.ndarray, " k"]
    rotation: Float[np.ndarray, "rank k"]
    shift: float

    @classmethod
    def of(cls, low_rank: LowRank, ridge: float) -> "Preconditioner":
        """From a factor, which is overwritten, and the ridge of the matrix to solve with.

        The shift is the mean of the diagonal that the factor leaves, or the ridge if that is larger: with a
        small ridge alone, directions outside of the factor would be blown up, and the iteration diverges.
        """
        factor = low_rank.factor
        squares, vectors = eigh(np.asarray(factor.T @ factor, float))
        kept = squares > np.finfo(factor.dtype).eps * len(squares) * squares[-1]
        squares, vectors = squares[kept], vectors[:, kept]
        turned = (vectors / np.sqrt(squares)).astype(factor.dtype)
        for start in range(0, len(factor), _ROWS):
            rows = slice(start, start + _ROWS)
            factor[rows, : len(squares)] = factor[rows] @ turned
        shift = max(float(ridge), float(low_rank.left.mean()))
        # Rounding leaves a shift even where the factor is the whole matrix.
        shift = max(shift, float(np.finfo(factor.dtype).eps * squares[-1] / len(factor)))
        return cls(factor[:, : len(squares)], squares, vectors, shift)

    def solve(self, right: Float[np.ndarray, "n k"]) -> Float[np.ndarray, "n k"]:
        """The inverse times `right`."""
        inside = self.basis.T @ right.astype(self.basis.dtype)
        share = (self.squares / (self.squares + self.shift)).astype(self.basis.dtype)
        return (right - self.basis @ (share[:, None] * inside)) / self.shift
