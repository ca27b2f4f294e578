r"""Entropy numbers of classes where they are known: the radius at which $2^n$ balls cover the class."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.checks import check_positive, check_whole


class EntropyBounds(NamedTuple):
    """Two numbers between which an entropy number is certain to lie."""

    lower: float
    upper: float


def interval_entropy(n: int) -> float:
    """Of the interval [0, 1]: half of one of 2^n equal parts."""
    check_whole("n", n, 0)
    return 2.0 ** -(n + 1)


def cube_entropy(n: int, dimension: int) -> float:
    """Of the cube [0, 1]^d in the maximum norm: as many parts along each axis as 2^n cubes allow."""
    check_whole("n", n, 0)
    check_whole("dimension", dimension)
    return 1 / (2 * _whole_root(2**n, dimension))


def lipschitz_entropy(n: int) -> float:
    """Of the functions on [0, 1] with f(0) = 0 and Lipschitz constant 1, in the maximum norm: 1/(n+1)."""
    check_whole("n", n, 0)
    return 1 / (n + 1)


def lipschitz_centres(n: int) -> Float[np.ndarray, "centres nodes"]:
    """Centres of 2^n balls that cover the Lipschitz class, by their values at 0, 1/(n+1), ..., 1.

    Zero on the first part and slope +1 or -1 on each of the others.
    """
    check_whole("n", n, 0)
    steps = _signs(n) / (n + 1)
    return np.concatenate([np.zeros((2**n, 2)), np.cumsum(steps, axis=1)], axis=1)


def lipschitz_packing(n: int) -> Float[np.ndarray, "functions nodes"]:
    """2^(n+1) functions of the Lipschitz class at mutual distances of at least 2/(n+1): all zigzags."""
    check_whole("n", n, 0)
    steps = _signs(n + 1) / (n + 1)
    return np.concatenate([np.zeros((2 ** (n + 1), 1)), np.cumsum(steps, axis=1)], axis=1)


def ball_entropy(n: int, dimension: int) -> EntropyBounds:
    """Of the unit ball of any norm on a space of this dimension, in the same norm, by volumes."""
    check_whole("n", n, 0)
    check_whole("dimension", dimension)
    low = 2.0 ** (-n / dimension)
    return EntropyBounds(low, min(1.0, 3 * low))


def ellipsoid_entropy(n: int, axes: Sequence[float] | Float[np.ndarray, " axes"]) -> EntropyBounds:
    r"""Of an ellipsoid with these semi-axes in the Euclidean norm.

    Below, $2^n$ balls of radius $\epsilon$ have less volume than the first d axes unless
    $\epsilon\ge2^{-n/d}(a_1\cdots a_d)^{1/d}$, for every d. Above, balls of radius r around a maximal set of
    points 2r apart do not overlap inside $(1+r/a_d)$ times the first d axes; the others add $a_{d+1}$.
    """
    check_whole("n", n, 0)
    for axis in axes:
        check_positive("an axis", axis)
    a = np.sort(np.asarray(axes, dtype=float))[::-1]
    sizes = np.arange(1, len(a) + 1)
    volumes = np.cumsum(np.log2(a))
    lower = float(np.max(2.0 ** ((volumes - n) / sizes)))
    following = np.append(a[1:], 0.0)
    uppers = [float(a[0])]
    for d, last, volume, after in zip(sizes, a, volumes, following, strict=True):
        # (1/r + 1/a_d)^d a_1 ... a_d = 2^n; the points are 2r apart and cover with radius 2r.
        room = 2.0 ** ((n - volume) / d) - 1 / last
        if room > 0:
            uppers.append(float(np.hypot(2 / room, after)))
    return EntropyBounds(lower, min(uppers))


def _whole_root(value: int, degree: int) -> int:
    """The largest whole number whose power is at most `value`, without rounding."""
    root = max(1, math.floor(2 ** (math.log2(value) / degree)))
    while (root + 1) ** degree <= value:
        root += 1
    while root**degree > value:
        root -= 1
    return root


def _signs(n: int) -> Float[np.ndarray, "patterns n"]:
    """All rows of n signs."""
    return 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
