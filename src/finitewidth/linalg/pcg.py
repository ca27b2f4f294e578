"""Preconditioned conjugate gradients for many right-hand sides, with residuals that are true.

The residual that the iteration carries along drifts away from the true one as soon as products round: it may
report 1e-6 where 4e-5 is true. So the end is decided by a residual computed anew in double precision. Where
that is not small enough yet, the iteration starts again from it, with products in double precision if need
be.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Float

# Iterations after which the true residual is looked at, whatever the other says.
_BETWEEN = 200
# A start that lowers the true residual by less has reached what its products can do.
_STALLED = 0.5


@runtime_checkable
class Product(Protocol):
    """The matrix times V; with `precise` in double precision."""

    def __call__(self, V: np.ndarray, *, precise: bool) -> np.ndarray: ...


class Solution(NamedTuple):
    """Columns x, their true residuals |b - A x| / |b|, and how they were found.

    `doubled` says whether products had to be in double precision; `remainder` is b - A x.
    """

    x: Float[np.ndarray, "n k"]
    remainder: Float[np.ndarray, "n k"]
    residuals: Float[np.ndarray, " k"]
    iterations: int
    converged: bool
    doubled: bool


def conjugate_gradients(
    product: Product,
    right: Float[np.ndarray, "n k"],
    precondition: Callable[[np.ndarray], np.ndarray],
    tolerance: float,
    *,
    most: int = 1_000,
    start: Float[np.ndarray, "n k"] | None = None,
    on_iteration: Callable[[int, float], None] = lambda iterations, residual: None,
) -> Solution:
    """Solve A x = b for every column of b at once, one product for all of them in each iteration.

    Parameters
    ----------
    product
        A symmetric positive definite matrix.
    right
        b.
    precondition
        An approximate inverse of A, symmetric and positive definite.
    tolerance
        Bound on every |b - A x| / |b|.
    most
        Iterations at most.
    start
        Where to begin; zero by default.
    on_iteration
        Called with the number of iterations and the largest residual as the iteration sees it.
    """
    sizes = np.linalg.norm(right, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    x = np.zeros_like(right) if start is None else start.astype(float)
    remainder = right.astype(float) if start is None else right - product(x, precise=True)
    iterations, precise, before = 0, False, np.inf
    while True:
        true = np.linalg.norm(remainder, axis=0) / sizes
        worst = float(true.max())
        if worst <= tolerance or iterations >= most:
            return Solution(x, remainder, true, iterations, worst <= tolerance, precise)
        if worst > _STALLED * before:
            if precise:
                return Solution(x, remainder, true, iterations, False, precise)
            precise = True
        before = worst
        report = functools.partial(_report, on_iteration, iterations, sizes)
        more = min(_BETWEEN, most - iterations)
        step, taken = _run(product, remainder, precondition, tolerance * sizes, precise, more, report)
        x += step
        iterations += taken
        remainder = right - product(x, precise=True)


def _report(on_iteration, before: int, sizes: np.ndarray, taken: int, lengths: np.ndarray) -> None:
    on_iteration(before + taken, float((lengths / sizes).max()))


def _run(product, remainder, precondition, targets, precise, most, report):
    """Iterate until the recursive residual is below its target; the step and the number of iterations."""
    x, r = np.zeros_like(remainder), remainder.copy()
    z = precondition(r)
    p, rho = z.copy(), np.sum(r * z, axis=0)
    taken = 0
    for taken in range(1, most + 1):
        q = product(p, precise=precise)
        curvature = np.sum(p * q, axis=0)
        # A column that is solved stays as it is.
        going = (curvature > 0) & (rho > 0)
        length = np.where(going, rho / np.where(going, curvature, 1), 0)
        x += length * p
        r -= length * q
        lengths = np.linalg.norm(r, axis=0)
        report(taken, lengths)
        # A little below, since the true residual is a little above.
        if (lengths <= 0.9 * targets).all() or not going.any():
            break
        z = precondition(r)
        new = np.sum(r * z, axis=0)
        p = z + np.where(going, new / np.where(going, rho, 1), 0) * p
        rho = new
    return x, taken
