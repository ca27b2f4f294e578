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
from jaxtyping import Bool, Float

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
    tolerance: float | Float[np.ndarray, " k"],
    *,
    most: int = 1_000,
    start: Float[np.ndarray, "n k"] | None = None,
    rough: Bool[np.ndarray, " k"] | None = None,
    on_iteration: Callable[[int, float], None] = lambda iterations, excess: None,
) -> Solution:
    """Solve A x = b for every column of b at once, one product in each iteration for all that need it still.

    Parameters
    ----------
    product
        A symmetric positive definite matrix.
    right
        b.
    precondition
        An approximate inverse of A, symmetric and positive definite.
    tolerance
        Bound on every |b - A x| / |b|, one for all columns or one for each.
    most
        Iterations at most.
    start
        Where to begin; zero by default.
    rough
        Columns whose tolerance is far above the rounding of products: their residuals are computed anew too,
        but not in double precision.
    on_iteration
        Called with the number of iterations and the largest residual over tolerance as the iteration sees it.
    """
    sizes = np.linalg.norm(right, axis=0)
    sizes = np.where(sizes > 0, sizes, 1.0)
    targets = tolerance * sizes
    rough = np.zeros(right.shape[1], bool) if rough is None else rough

    def remainder_of(x: np.ndarray) -> np.ndarray:
        left = np.empty(right.shape)
        for columns, precise in ((~rough, True), (rough, False)):
            if columns.any():
                left[:, columns] = right[:, columns] - product(x[:, columns], precise=precise)
        return left

    x = np.zeros(right.shape) if start is None else start.astype(float)
    remainder = right.astype(float) if start is None else remainder_of(x)
    iterations, precise, before = 0, False, np.inf
    while True:
        true = np.linalg.norm(remainder, axis=0)
        worst = float((true / targets).max())
        if worst <= 1 or iterations >= most:
            return Solution(x, remainder, true / sizes, iterations, worst <= 1, precise)
        if worst > _STALLED * before:
            if precise:
                return Solution(x, remainder, true / sizes, iterations, False, precise)
            precise = True
        before = worst
        report = functools.partial(_report, on_iteration, iterations)
        more = min(_BETWEEN, most - iterations)
        step, taken = _run(product, remainder, precondition, targets, precise, more, report)
        x += step
        iterations += taken
        remainder = remainder_of(x)


def _report(on_iteration, before: int, taken: int, excess: float) -> None:
    on_iteration(before + taken, excess)


def _run(product, remainder, precondition, targets, precise, most, report):
    """Iterate until every recursive residual is below its target; the step and the number of iterations.

    A column that is there leaves the block, and costs nothing any more.
    """
    # A little below, since the true residual is a little above.
    targets = 0.9 * targets
    step, columns = np.zeros_like(remainder), np.flatnonzero(np.linalg.norm(remainder, axis=0) > targets)
    r = remainder[:, columns]
    x, z = np.zeros_like(r), precondition(r)
    p, rho = z.copy(), np.sum(r * z, axis=0)
    taken = 0
    while len(columns) and taken < most:
        taken += 1
        q = product(p, precise=precise)
        curvature = np.sum(p * q, axis=0)
        going = (curvature > 0) & (rho > 0)
        length = np.where(going, rho / np.where(going, curvature, 1), 0)
        x += length * p
        r -= length * q
        excess = np.linalg.norm(r, axis=0) / targets[columns]
        report(taken, float(excess.max()))
        stay = (excess > 1) & going
        if not stay.all():
            step[:, columns[~stay]] = x[:, ~stay]
            columns, rho, x, r, p = columns[stay], rho[stay], x[:, stay], r[:, stay], p[:, stay]
        if len(columns):
            z = precondition(r)
            new = np.sum(r * z, axis=0)
            p = z + new / rho * p
            rho = new
    step[:, columns] = x
    return step, taken
