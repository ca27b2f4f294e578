"""The largest eigenvalue of the Hessian along a training."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.measure.loss.operators import hessian
from finitewidth.measure.loss.spectrum import eigenpairs
from finitewidth.measure.specimen import Specimen, Vector

# Of the last eigenvector and of a random direction, in the first guess for the next.
_RANDOM = 0.1


class Sharpness(NamedTuple):
    """Largest Hessian eigenvalues (steps,), their residuals (steps,) and the products they took (steps,)."""

    values: Float[np.ndarray, " steps"]
    residuals: Float[np.ndarray, " steps"]
    products: np.ndarray


def sharpness_along(
    s: Specimen, weights: Iterable[Vector], *, tolerance: float = 1e-2, least_products: int = 5
) -> Sharpness:
    """The sharpness at each of several weights, such as those of a training in their order.

    Every search begins with the eigenvector that the last one has found, which saves products while it turns
    slowly, and with some of a random direction, lest another eigenvalue that has grown larger be missed.

    Parameters
    ----------
    s
        A specimen, for its network, data and loss.
    weights
        Rows such as `s.weights`; they may come from a generator, one at a time.
    tolerance
        Of the residual, relative to the eigenvalue.
    least_products
        Products that are taken at each weights but the first, which takes at least 20.
    """
    rng = np.random.default_rng(0)
    start, found = None, []
    for row in weights:
        at = hessian(s.at(row))
        pair = eigenpairs(
            at, 1, tolerance=tolerance, start=start, least_products=20 if start is None else least_products
        )
        found.append((pair.values[0], pair.residuals[0], pair.products))
        start = pair.vectors[:, 0] + _RANDOM * rng.normal(size=at.shape[0]) / np.sqrt(at.shape[0])
    if not found:
        raise ValueError("weights is empty: give at least one row.")
    return Sharpness(*(np.array(part) for part in zip(*found, strict=True)))
