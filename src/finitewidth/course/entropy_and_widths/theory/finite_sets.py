"""Covers of finite sets of points: greedy with a certificate, and the smallest by integer programming."""

from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.spatial.distance import cdist

from finitewidth._base.checks import check_positive, check_whole
from finitewidth.course.entropy_and_widths.theory.entropy import EntropyBounds

Norm = Literal["euclidean", "chebyshev", "cityblock"]


class Cover(NamedTuple):
    """Centres, by their places among the points, and the largest distance of a point from its centre."""

    centres: Int[np.ndarray, " k"]
    radius: float


def farthest_points(points: Float[np.ndarray, "n d"], count: int, norm: Norm = "euclidean") -> Cover:
    """Centres one by one, each the point farthest from those before.

    The centres are at least `radius` apart from each other, and so is the next one, so that no `count` balls
    of less than half this radius cover the points.
    """
    check_whole("count", count)
    points = np.asarray(points, dtype=float)
    chosen = [0]
    nearest = cdist(points[:1], points, norm)[0]
    while len(chosen) < min(count, len(points)):
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, cdist(points[chosen[-1:]], points, norm)[0])
    return Cover(np.array(chosen), float(nearest.max()))


def finite_entropy(points: Float[np.ndarray, "n d"], n: int, norm: Norm = "euclidean") -> EntropyBounds:
    """The radius at which 2^n balls cover the points, known up to a factor of two.

    Parameters
    ----------
    points
        One in each row.
    n
        Logarithm of the number of balls.
    norm
        "euclidean", "chebyshev" (maximum) or "cityblock".
    """
    check_whole("n", n, 0)
    radius = farthest_points(points, 2**n, norm).radius
    return EntropyBounds(radius / 2, radius)


def smallest_cover(points: Float[np.ndarray, "n d"], radius: float | int, norm: Norm = "euclidean") -> Cover:
    """The fewest points whose balls cover all others, exactly, by integer programming."""
    check_positive("radius", radius)
    points = np.asarray(points, dtype=float)
    distance = cdist(points, points, norm)
    # Points on the rim count as covered, whatever rounding does to their distance.
    covers = (distance <= radius * (1 + 1e-12)).astype(float)
    count = len(points)
    found = milp(
        np.ones(count),
        constraints=LinearConstraint(covers, 1.0, np.inf),
        integrality=np.ones(count),
        bounds=Bounds(0, 1),
    )
    if found.x is None:
        raise RuntimeError(f"no cover was found: {found.message}")
    centres = np.flatnonzero(found.x > 0.5)
    return Cover(centres, float(distance[centres].min(axis=0).max()))
