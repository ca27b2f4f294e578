"""Lanczos' method for symmetric matrices that are known by their products.

SciPy's `eigsh` keeps its residuals to itself, so that stating them would take one more product per pair.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

Product = Callable[[np.ndarray], np.ndarray]
# Indices of eigenvalues, the most wanted first.
Order = Callable[[np.ndarray], np.ndarray]
# A vector that keeps a smaller share of its length is not yet orthogonal to what was taken away.
_LOST = 0.7
# Residuals of the pairs beyond those wanted, relative to their size: enough to see that none was passed over.
_ROUGH = 0.1
# Eigenvalues below this share of the largest are known as well as if they were as large.
_SMALL = 1e-2


class Ritz(NamedTuple):
    """Approximate eigenvalues, eigenvectors (columns), lengths of A v - value v, whether these suffice."""

    values: Float[np.ndarray, " k"]
    vectors: Float[np.ndarray, "n k"]
    residuals: Float[np.ndarray, " k"]
    converged: bool


class Krylov:
    """An orthonormal basis V (rows) that grows by products A v, and the matrix T = V A V^T.

    A V^T = V^T T + r e^T with the last unit vector e, and r / |r| is the next basis vector. So an eigenvector
    s of T stands for the eigenvector V^T s of A with a residual |r| |s_last|; `left` is |r|.
    """

    def __init__(self, product: Product, start: np.ndarray, most: int):
        self.product, self.steps, self.left = product, 0, 0.0
        self.basis = np.empty((most + 1, len(start)), start.dtype)
        self.matrix = np.zeros((most, most))
        self.basis[0] = start / np.linalg.norm(start)
        self._rng = np.random.default_rng(0)

    def grow(self) -> None:
        """One more product."""
        j = self.steps
        vector, column = self._orthogonal(self.product(self.basis[j]), j + 1)
        self.left = float(np.linalg.norm(vector))
        self.matrix[: j + 1, j] = self.matrix[j, : j + 1] = column
        self.steps = j + 1
        if self.left <= self.rounding():
            # A maps the basis to itself: go on with any other direction, as long as there is one.
            self.left = 0.0
            vector = self._rng.normal(size=len(vector)).astype(vector.dtype)
            vector = self._orthogonal(vector, j + 1)[0]
        length = np.linalg.norm(vector)
        self.basis[j + 1] = vector / length if length else 0

    def rounding(self) -> float:
        """What rounding makes of products with A."""
        return float(10 * np.finfo(self.basis.dtype).eps * np.abs(self.matrix).max())

    def ritz(self, order: Order) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Eigenvalues of T, its eigenvectors and their residuals in A, the most wanted first."""
        values, vectors = np.linalg.eigh(self.matrix[: self.steps, : self.steps])
        chosen = order(values)
        values, vectors = values[chosen], vectors[:, chosen]
        return values, vectors, self.left * np.abs(vectors[-1]) + self.rounding()

    def combined(self, vectors: Float[np.ndarray, "steps k"]) -> Float[np.ndarray, "k n"]:
        """Vectors that are given by their components in the basis."""
        return vectors.T.astype(self.basis.dtype) @ self.basis[: self.steps]

    def restart(self, values: Float[np.ndarray, " k"], vectors: Float[np.ndarray, "steps k"]) -> None:
        """Keep some eigenvectors of T and the vector that comes next; drop the rest of the basis."""
        kept = len(values)
        self.basis[:kept], self.basis[kept] = self.combined(vectors), self.basis[self.steps]
        self.matrix[:] = 0
        self.matrix[range(kept), range(kept)] = values
        self.steps = kept

    def _orthogonal(self, vector: np.ndarray, rows: int) -> tuple[np.ndarray, np.ndarray]:
        """What a vector has outside of the first basis vectors, and its components along them."""
        components = np.zeros(rows)
        # Most of it lies along the last two; without that, one pass over the whole basis is enough.
        for first in (max(rows - 2, 0), 0, 0):
            length = np.linalg.norm(vector)
            known = self.basis[first:rows]
            shares = known @ vector
            vector = vector - shares @ known
            components[first:] += shares
            if first == 0 and np.linalg.norm(vector) > _LOST * length:
                break
        return vector, components


def extreme_pairs(
    product: Product,
    start: np.ndarray,
    order: Order,
    *,
    count: int,
    extra: int,
    tolerance: float,
    least_steps: int,
    most_steps: int,
    basis: int,
) -> Ritz:
    """The `count` eigenpairs that an order wants most, by Lanczos' method with thick restarts.

    It ends when their residuals are below `tolerance` times the eigenvalue's size, those of `extra` more
    pairs are roughly known, and `least_steps` products were taken; or after `most_steps`. The basis has at
    most `basis` vectors.
    """
    wanted = min(count + extra, len(start))
    krylov = Krylov(product, start, min(basis, len(start)))
    allowed = np.zeros(wanted)
    for step in range(1, most_steps + 1):
        krylov.grow()
        complete, full = (krylov.steps == size for size in (len(start), len(krylov.matrix)))
        early = krylov.steps < wanted or step < least_steps
        if early and not full:
            continue
        values, vectors, residuals = krylov.ritz(order)
        sizes = np.maximum(np.abs(values), _SMALL * np.abs(values).max())
        shares = np.where(np.arange(wanted) < count, tolerance, max(tolerance, _ROUGH))
        # No iteration gets below what rounding leaves.
        allowed = np.maximum(shares * sizes[:wanted], 2 * krylov.rounding())
        if complete or (not early and (residuals[:wanted] <= allowed).all()):
            break
        if full and step < most_steps:
            kept = (wanted + krylov.steps) // 2
            krylov.restart(values[:kept], vectors[:, :kept])
    values, vectors, residuals = (part[..., :count] for part in krylov.ritz(order))
    return Ritz(values, krylov.combined(vectors).T, residuals, bool((residuals <= allowed[:count]).all()))


def quadrature(product: Product, start: np.ndarray, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes t and weights w with start . f(A) start = sum w f(t) for polynomials f of degree < 2 steps."""
    krylov = Krylov(product, start, min(steps, len(start)))
    while krylov.steps < len(krylov.matrix):
        krylov.grow()
        if not krylov.left:
            break
    nodes, vectors = np.linalg.eigh(krylov.matrix[: krylov.steps, : krylov.steps])
    missing = (0, steps - krylov.steps)
    return np.pad(nodes, missing), np.pad((start @ start) * vectors[0] ** 2, missing)
