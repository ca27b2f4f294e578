"""The ends of a spectrum: eigenpairs with their residuals, and the spaces that eigenvectors span."""

import warnings
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator

from finitewidth._base.checks import check_positive, check_whole
from finitewidth._base.linalg.lanczos import extreme_pairs
from finitewidth.measure.loss.operators import SymmetricOperator

Which = Literal["largest", "smallest", "both", "magnitude"]
_BASIS_BYTES = 2**31
_EXTRA = 2


class Eigenpairs(NamedTuple):
    """Eigenvalues (k,), the most wanted first, eigenvectors (size, k), residuals (k,) and the cost.

    `residuals` are the lengths |A v - value v|: an exact eigenvalue is at most so far from each value.
    `products` counts the products A v.
    """

    values: Float[np.ndarray, " k"]
    vectors: Float[np.ndarray, "size k"]
    residuals: Float[np.ndarray, " k"]
    products: int


def _both_ends(values: np.ndarray) -> np.ndarray:
    down = np.argsort(-values)
    return np.stack([down, down[::-1]], axis=1).ravel()[: len(values)]


ORDERS = {
    "largest": lambda values: np.argsort(-values),
    "smallest": np.argsort,
    "both": _both_ends,
    "magnitude": lambda values: np.argsort(-np.abs(values)),
}


def eigenpairs(
    operator: LinearOperator,
    k: int,
    which: Which = "largest",
    *,
    tolerance: float = 1e-3,
    start: Float[np.ndarray, " size"] | None = None,
    least_products: int = 20,
    most_products: int = 1000,
) -> Eigenpairs:
    """Eigenpairs at an end of a symmetric operator's spectrum, by Lanczos' method.

    A small residual proves that there is an eigenvalue near by. It does not prove that this is the largest: a
    few steps can settle on the second and miss the first. So two more pairs than asked for must be roughly
    known before the iteration ends, and no fewer than 20 products are taken. Eigenvalues that occur several
    times may be found once.

    Parameters
    ----------
    operator
        Such as `hessian(s)`.
    k
        How many.
    which
        "largest", "smallest" (the most negative), "magnitude" (largest in size), or "both": largest and
        smallest in turns.
    tolerance
        Of the residuals, relative to the size of the eigenvalue, or to a hundredth of the largest if that is
        more.
    start
        A first guess, such as an eigenvector at weights near by. Random by default.
    least_products, most_products
        Limits of the cost. A warning says when the second ends the iteration.
    """
    size = operator.shape[0]
    check_whole("k", k)
    check_positive("tolerance", tolerance)
    if which not in ORDERS:
        raise ValueError(f"which must be one of {', '.join(map(repr, ORDERS))}, got {which!r}.")
    if k > size:
        raise ValueError(f"k={k} eigenpairs were asked of a matrix with {size} rows.")
    if start is None:
        start = np.random.default_rng(0).normal(size=size)
    start = np.asarray(start, operator.dtype)
    wanted = k + _EXTRA
    fitting = _BASIS_BYTES // (size * start.itemsize)
    basis = max(2 * wanted + 1, least_products, min(max(4 * wanted, 60), fitting))
    counted = SymmetricOperator(operator.matvec, size, operator.dtype)
    found = extreme_pairs(
        counted.matvec, start, ORDERS[which], count=k, extra=_EXTRA, tolerance=tolerance,
        least_steps=least_products, most_steps=max(most_products, wanted), basis=basis,
    )  # fmt: skip
    if not found.converged:
        warnings.warn(
            f"after {counted.products} products a residual is {found.residuals.max():.1e}, above the "
            f"tolerance: take more products, or a tolerance above {tolerance:g}.",
            RuntimeWarning,
            stacklevel=2,
        )
    return Eigenpairs(found.values, found.vectors, found.residuals, counted.products)


def overlap(first: Float[np.ndarray, "size k"], second: Float[np.ndarray, "size k"]) -> float:
    """|V^T W|_F^2 / k of two orthonormal bases: 1 for the same space, k / size for random ones."""
    first, second = np.asarray(first), np.asarray(second)
    if first.ndim != 2 or first.shape != second.shape:
        raise ValueError(
            f"overlap needs two bases of one shape (size, k), got {first.shape} and {second.shape}."
        )
    return float(np.sum((first.T @ second) ** 2) / first.shape[1])


def share_in_space(vector: Float[np.ndarray, " size"], vectors: Float[np.ndarray, "size k"]) -> float:
    """|V^T g|^2 / |g|^2: the share of a vector's squared length in the space of an orthonormal basis."""
    return float(np.sum((vectors.T @ vector) ** 2) / np.sum(vector**2))
