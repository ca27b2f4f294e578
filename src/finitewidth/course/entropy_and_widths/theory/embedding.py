r"""Points in few dimensions with all distances nearly kept (Johnson and Lindenstrauss).

A Gaussian matrix with $m\ge4\log k/(e^2/2-e^3/3)$ rows keeps all squared distances of k points within
$1\pm e$ with a probability of at least 1/k. Divided by its largest stretch on the points it scales distances
into $[1-\epsilon,1]$ with $(1-e)/(1+e)=(1-\epsilon)^2$. It is 1-Lipschitz on the points only: no linear map
that is so on the whole space keeps the distances of 0 and D orthonormal vectors unless
$m\ge(1-\epsilon)^2D$.
"""

import math
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.spatial.distance import pdist

from finitewidth._base.checks import check_key, check_whole

_MOST_DRAWS = 100


class Embedding(NamedTuple):
    """A matrix and the images of the points, with the least factor by which a distance shrinks.

    No distance between points grows.
    """

    matrix: Float[np.ndarray, "m d"]
    images: Float[np.ndarray, "k m"]
    least: float


def embedding_dimension(points: int, epsilon: float) -> int:
    """Dimensions that suffice for so many points and distances within [1 - epsilon, 1]."""
    check_whole("points", points, 2)
    _check_epsilon(epsilon)
    ratio = (1 - epsilon) ** 2
    e = (1 - ratio) / (1 + ratio)
    return math.ceil(4 * math.log(points) / (e**2 / 2 - e**3 / 3))


def linear_contraction_dimension(points: int, epsilon: float) -> float:
    r"""Rank that a linear map of norm at most one needs on 0 and so many orthonormal vectors.

    $\sum_i|Ae_i|^2\le\mathrm{rank}A$, and every term is at least $(1-\epsilon)^2$.
    """
    _check_epsilon(epsilon)
    return (1 - epsilon) ** 2 * points


def embed(
    points: Float[np.ndarray, "k d"], dimension: int, key: PRNGKeyArray, epsilon: float = 0.5
) -> Embedding:
    """A linear map into fewer dimensions that shrinks distances between the points by 1 - epsilon at most.

    Parameters
    ----------
    points
        Different points, one in each row.
    dimension
        Dimensions of the images; `embedding_dimension` says how many suffice.
    key
        Matrices are drawn from it until one keeps the distances.
    epsilon
        By how much distances may shrink.
    """
    check_whole("dimension", dimension)
    check_key(key)
    _check_epsilon(epsilon)
    points = np.asarray(points, dtype=float)
    distances = pdist(points)
    if len(points) < 2 or not distances.min() > 0:
        raise ValueError(f"points must be at least two different ones, got {len(points)} with repetitions.")
    best = None
    for draw in jax.random.split(key, _MOST_DRAWS):
        matrix = np.asarray(jax.random.normal(draw, (dimension, points.shape[1])))
        stretched = pdist(points @ matrix.T) / distances
        least = float(stretched.min() / stretched.max())
        if best is None or least > best.least:
            scaled = matrix / stretched.max()
            best = Embedding(scaled, points @ scaled.T, least)
        if best.least >= 1 - epsilon:
            return best
    assert best is not None
    raise ValueError(
        f"dimension = {dimension} is too small for {len(points)} points and epsilon = {epsilon}: the best of "
        f"{_MOST_DRAWS} matrices shrinks a distance to {best.least:.3f}; "
        f"{embedding_dimension(len(points), epsilon)} suffice."
    )


def _check_epsilon(epsilon: float) -> None:
    if not 0 < epsilon < 1:
        raise ValueError(f"epsilon must lie between 0 and 1, got {epsilon!r}.")
