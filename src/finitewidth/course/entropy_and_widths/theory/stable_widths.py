r"""Stable widths: how well n numbers describe a class if encoder and decoder are 2-Lipschitz.

Above: $\delta_{26n}\le3\epsilon_n$. The $2^n$ centres of a cover are embedded in $26n$ dimensions with
distances scaled into [1/2, 1]; encoder and decoder extend this map and its inverse, one point at a time.
Below: if n numbers describe a class within d and its codes lie in a ball of radius R, then members
4d apart have codes d apart, of which there are at most $(3R/d)^n$. So $\epsilon_N\le4d$ at $N=n\log_2(3R/d)$.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth._base.checks import check_positive, check_whole
from finitewidth.course.entropy_and_widths.theory.embedding import embed
from finitewidth.course.entropy_and_widths.theory.extension import extend
from finitewidth.course.entropy_and_widths.theory.finite_sets import farthest_points

# Dimensions for each bit that suffice for distances within [1/2, 1].
DIMENSIONS_PER_BIT = 26


class StableCode(NamedTuple):
    """A cover whose centres are embedded, with encoder and decoder that extend the embedding.

    `radius` is the covering radius of the centres: no point of the class is described worse than by three
    times this.
    """

    centres: Float[np.ndarray, "k d"]
    codes: Float[np.ndarray, "k m"]
    radius: float

    def encode(self, point: Float[np.ndarray, " d"]) -> Float[np.ndarray, " m"]:
        """The code of a point, 1-Lipschitz towards the centres."""
        return extend(self.centres, self.codes, point).image

    def decode(self, code: Float[np.ndarray, " m"]) -> Float[np.ndarray, " d"]:
        """The point of a code, 2-Lipschitz towards the codes of the centres."""
        return extend(self.codes, self.centres, code, 2.0).image


def stable_code(
    points: Float[np.ndarray, "n d"], bits: int, key: PRNGKeyArray, dimension: int | None = None
) -> StableCode:
    """An encoder and a decoder for a class that is given by points.

    Parameters
    ----------
    points
        Members of the class, one in each row: vectors, or functions by their values.
    bits
        Logarithm of the number of centres.
    key
        For the embedding.
    dimension
        Numbers in a code; 26 per bit by default. Up to 7 bits the centres fit into as many dimensions anyhow.
    """
    check_whole("bits", bits)
    points = np.asarray(points, dtype=float)
    cover = farthest_points(points, 2**bits)
    centres = points[cover.centres]
    found = embed(centres, dimension or DIMENSIONS_PER_BIT * bits, key, epsilon=0.5)
    return StableCode(centres, found.images, cover.radius)


class EntropyAtIndex(NamedTuple):
    """The entropy number of an index is at most `upper`."""

    index: int
    upper: float


def entropy_from_stable_width(numbers: int, error: float | int, radius: float | int) -> EntropyAtIndex:
    """What a stable description says about covers: 2^index balls of radius `upper` cover the class.

    Parameters
    ----------
    numbers
        n, numbers in a code.
    error
        d, how well encoder and decoder describe every member; any larger number will do.
    radius
        R, of a ball around all codes; at most twice the radius of the class. At least d.
    """
    check_whole("numbers", numbers)
    check_positive("error", error)
    check_positive("radius", radius)
    if error > radius:
        raise ValueError(f"error = {error} is larger than radius = {radius}: one ball covers the class.")
    return EntropyAtIndex(math.ceil(numbers * math.log2(3 * radius / error)), 4.0 * error)
