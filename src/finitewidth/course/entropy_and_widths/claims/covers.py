"""Entropy numbers of simple classes, by explicit covers and packings."""

import itertools
from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist, pdist

from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound, z_score
from finitewidth.course._lab.estimate import Estimate, exact, jackknife
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.sources import orf_543
from finitewidth.course.entropy_and_widths.theory.entropy import (
    cube_entropy,
    ellipsoid_entropy,
    lipschitz_centres,
    lipschitz_entropy,
    lipschitz_packing,
)


@dataclass(frozen=True)
class SimpleClasses:
    """Lipschitz functions, cubes, and an ellipsoid with the semi-axes 1, 1/2, 1/3, ..."""

    bits: tuple[int, ...]
    functions: int
    dimension: int = 3
    pieces: int = 12

    @property
    def axes(self) -> np.ndarray:
        return 1 / np.arange(1.0, 4.0)

    def theory(self) -> Prediction:
        lipschitz = np.array([lipschitz_entropy(n) for n in self.bits])
        cubes = np.array([cube_entropy(n, self.dimension) for n in self.bits])
        ellipsoids = np.array([ellipsoid_entropy(n, self.axes) for n in self.bits])
        return {
            "covered": lipschitz,
            "packed": 2 * lipschitz,
            "cube covered": cubes,
            "cube packed": 2 * cubes,
            "ellipsoid": ellipsoids[:, 1],
            "ellipsoid below": ellipsoids[:, 0],
        }

    def measure(self, key) -> Measurement:
        rng = random_generator(key)
        worst, apart, cube, cube_apart, inside = [], [], [], [], []
        for n in self.bits:
            steps = self.pieces * (n + 1)
            slopes = np.clip(rng.normal(scale=1.5, size=(self.functions, steps)), -1, 1)
            drawn = np.cumsum(np.concatenate([np.zeros((len(slopes), 1)), slopes], axis=1), axis=1) / steps
            places = np.linspace(0, n + 1, steps + 1)
            centres = [np.interp(places, np.arange(n + 2), row) for row in lipschitz_centres(n)]
            worst.append(cdist(drawn, np.array(centres), "chebyshev").min(axis=1).max())
            apart.append(pdist(lipschitz_packing(n), "chebyshev").min())
            # As many equal cubes along each axis as 2^n allow, and their corners, of which there are more.
            parts = max(k for k in range(1, 2**n + 1) if k**self.dimension <= 2**n)
            corners = np.array(list(itertools.product(np.arange(parts + 1), repeat=self.dimension))) / parts
            assert len(corners) > 2**n
            cells = np.array(list(itertools.product(np.arange(parts), repeat=self.dimension)))
            middles = (cells + 0.5) / parts
            cube.append(cdist(corners, middles, "chebyshev").min(axis=1).max())
            cube_apart.append(pdist(corners, "chebyshev").min())
            points = self.in_the_ellipsoid(rng, 4000)
            inside.append(_greedy_radius(points, 2**n))
        return {
            "covered": exact(np.array(worst)),
            "packed": exact(np.array(apart)),
            "cube covered": exact(np.array(cube)),
            "cube packed": exact(np.array(cube_apart)),
            "ellipsoid": exact(np.array(inside) / 2),
            "ellipsoid below": self.volume_radius(rng),
        }

    def in_the_ellipsoid(self, rng: np.random.Generator, count: int) -> np.ndarray:
        """Uniform draws."""
        direction = rng.standard_normal((count, len(self.axes)))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return direction * rng.uniform(size=(count, 1)) ** (1 / len(self.axes)) * self.axes

    def volume_radius(self, rng: np.random.Generator) -> Estimate:
        """Where 2^n balls have the volume of a section along the first axes, the largest over sections.

        Volumes are shares of random points of a cube.
        """
        points = rng.uniform(-1, 1, size=(40_000, len(self.axes)))
        in_sections = np.cumsum((points / self.axes) ** 2, axis=1) < 1
        in_balls = np.cumsum(points**2, axis=1) < 1
        halves = np.array(self.bits)[:, None] * np.log(2)
        sizes = np.arange(1, len(self.axes) + 1)

        def radius(shares: np.ndarray) -> np.ndarray:
            sections, balls = np.split(shares, 2)
            return np.exp((np.log(sections / balls) - halves) / sizes).max(axis=1)

        return jackknife(np.concatenate([in_sections, in_balls], axis=1).astype(float), radius)

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        equal = {
            "packed": "distance of Lipschitz zigzags",
            "cube covered": "cubes: radius of the cover",
            "cube packed": "cubes: distance of corners",
        }
        return [
            upper_bound(
                "Lipschitz functions from the nearest centre", predicted["covered"], measured["covered"]
            ),
            *(
                absolute_error(text, predicted[name], measured[name].value, 1e-12)
                for name, text in equal.items()
            ),
            z_score("ellipsoid: lower bound", predicted["ellipsoid below"], measured["ellipsoid below"]),
            # No cover has less than half the distance of points that are one more than its balls.
            upper_bound("ellipsoid: upper bound", predicted["ellipsoid"], measured["ellipsoid"]),
        ]


def _greedy_radius(points: np.ndarray, count: int) -> float:
    """The largest distance from `count` points that were chosen one by one, each farthest from the others."""
    nearest = np.linalg.norm(points - points[0], axis=1)
    for _ in range(count - 1):
        new = points[np.argmax(nearest)]
        nearest = np.minimum(nearest, np.linalg.norm(points - new, axis=1))
    return float(nearest.max())


def _one_bit_more(setting: SimpleClasses, value: np.ndarray) -> np.ndarray:
    """1/n: twice as many balls taken to be needed."""
    return value * (np.array(setting.bits) + 1) / np.array(setting.bits)


def _without_the_floor(setting: SimpleClasses, value: np.ndarray) -> np.ndarray:
    return 2.0 ** (-np.array(setting.bits) / setting.dimension) / 2


def _all_axes(setting: SimpleClasses, value: np.ndarray) -> np.ndarray:
    """The volume of the whole ellipsoid only, not of its sections."""
    n = np.array(setting.bits)
    return (np.prod(setting.axes) / 2.0**n) ** (1 / len(setting.axes))


CLAIMS = (
    Claim(
        id="entropy-numbers-simple-classes",
        title="entropy numbers of simple classes",
        statement="""With 2^n balls in the maximum norm the functions on [0, 1] with f(0) = 0 and Lipschitz
        constant 1 are covered at radius 1/(n+1), by centres that are zero on the first of n+1 parts and have
        slope +-1 on the others, and at no less: 2^(n+1) zigzags are 2/(n+1) apart. The cube [0, 1]^d is
        covered at 1/(2 floor(2^(n/d))). An ellipsoid with semi-axes a_k needs at least the largest of
        2^(-n/d) (a_1 ... a_d)^(1/d).""",
        source=orf_543("11/28") + ", entropy numbers; 2^n balls, not n",
        quick=SimpleClasses(bits=(1, 2, 3, 4, 5, 6), functions=300),
        full=SimpleClasses(bits=(1, 2, 3, 4, 5, 6, 7, 8), functions=5000),
        figure=Curves("bits", "n, the logarithm of the number of balls"),
        wrong={
            "packed": _one_bit_more,
            "cube covered": _without_the_floor,
            "ellipsoid below": _all_axes,
        },
        bounds={"covered": "above", "ellipsoid": "above"},
    ),
)
