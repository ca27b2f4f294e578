"""Stable descriptions of a class and its entropy numbers: each bounds the other."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from finitewidth.complexity import entropy_from_stable_width, extend, stable_code
from finitewidth.lab.framework import (
    Checks,
    Claim,
    Curves,
    Measurement,
    Prediction,
    RandomProblem,
    exact,
    orf_543,
    scaled,
    upper_bound,
)
from finitewidth.lab.instruments.linear_networks import random_generator

_SOURCE = orf_543("11/28") + ", stable widths; "


@dataclass(frozen=True)
class Codes(RandomProblem):
    """Random vectors whose entries fall off, more of them than centres of a cover."""

    bits: int
    dimension: int
    others: int
    decay: float = 0.6

    @property
    def points(self) -> np.ndarray:
        sizes = np.arange(1, self.dimension + 1) ** -self.decay
        return self.rng().normal(size=(2**self.bits + 100, self.dimension)) * sizes

    def theory(self) -> Prediction:
        radius = _radius_of_the_cover(self.points, 2**self.bits)
        return {
            "error": np.full(self.others, 3 * radius),
            "encoder": np.ones(self.others),
            "decoder": np.full(self.others, 2.0),
        }

    def measure(self, key) -> Measurement:
        points = self.points
        code = stable_code(points, self.bits, key)
        rest = points[cdist(points, code.centres).min(axis=1) > 0][: self.others]
        coded = [extend(code.centres, code.codes, point) for point in rest]
        back = [extend(code.codes, code.centres, one.image, 2.0) for one in coded]
        return {
            "error": exact(np.array([np.linalg.norm(p - b.image) for p, b in zip(rest, back, strict=True)])),
            "encoder": exact(np.array([one.constant for one in coded])),
            "decoder": exact(np.array([one.constant for one in back])),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {"error": "distance after decoding", "encoder": "encoder", "decoder": "decoder"}
        return [
            upper_bound(text, predicted[name] * (1 + 1e-6), measured[name]) for name, text in texts.items()
        ]


def _radius_of_the_cover(points: np.ndarray, count: int) -> float:
    """The radius of the cover by points chosen one by one, each farthest from those before."""
    nearest = np.linalg.norm(points - points[0], axis=1)
    for _ in range(count - 1):
        nearest = np.minimum(nearest, np.linalg.norm(points - points[np.argmax(nearest)], axis=1))
    return float(nearest.max())


def _nothing_lost(setting: Codes, value: np.ndarray) -> np.ndarray:
    """Members told apart from their centres, as if the embedding had kept the class and not the centres."""
    return value / 100


def _least_for_largest(setting: Codes, value: np.ndarray) -> np.ndarray:
    """The least factor of a distance, 1/2, taken for the Lipschitz constant."""
    return value / 2


@dataclass(frozen=True)
class Packings:
    """A thin class in many dimensions that its first coordinates describe.

    Points uniform in a ball of radius one along `numbers` axes, with noise of length `error` along the rest;
    the code is the first coordinates, and the decoder puts zeros behind.
    """

    numbers: int
    errors: tuple[float, ...]
    points: int
    dimension: int = 20

    def theory(self) -> Prediction:
        found = [entropy_from_stable_width(self.numbers, error, 1.0) for error in self.errors]
        return {
            "index": np.array([float(one.index) for one in found]),
            "radius": np.array([one.upper for one in found]),
        }

    def measure(self, key) -> Measurement:
        rng = random_generator(key)
        count, radius = [], []
        for error in self.errors:
            points = self.members(rng, error)
            chosen, nearest = 1, np.linalg.norm(points - points[0], axis=1)
            # A maximal set of points that are 4 errors apart.
            while nearest.max() > 4 * error:
                new = points[np.argmax(nearest)]
                nearest = np.minimum(nearest, np.linalg.norm(points - new, axis=1))
                chosen += 1
            count.append(np.log2(chosen))
            radius.append(nearest.max())
        return {"index": exact(np.array(count)), "radius": exact(np.array(radius))}

    def members(self, rng: np.random.Generator, error: float) -> np.ndarray:
        direction = rng.standard_normal((self.points, self.numbers))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        noise = rng.standard_normal((self.points, self.dimension - self.numbers))
        noise *= error / np.linalg.norm(noise, axis=1, keepdims=True)
        inside = direction * rng.uniform(size=(self.points, 1)) ** (1 / self.numbers)
        return np.concatenate([inside, noise], axis=1)

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            upper_bound("logarithm of the number of balls", predicted["index"], measured["index"]),
            upper_bound("radius of the balls", predicted["radius"], measured["radius"]),
        ]


def _as_many_bits_as_numbers(setting: Packings, value: np.ndarray) -> np.ndarray:
    """No logarithm of the radius over the error."""
    return np.full_like(value, float(setting.numbers))


CLAIMS = (
    Claim(
        id="stable-width-upper",
        title="covers make stable codes",
        statement="""A class in a Hilbert space that 2^n balls of radius eps cover has an encoder into 26 n
        numbers and a decoder, 1- and 2-Lipschitz towards the centres, that return every member within 3 eps:
        the centres are embedded with distances in [1/2, 1], and both maps are extended from them one point
        at a time.""",
        source=_SOURCE + "26 n numbers; meaningful from n = 8 on",
        quick=Codes(bits=8, dimension=300, others=6),
        full=Codes(bits=9, dimension=600, others=40),
        wrong={"error": _nothing_lost, "encoder": _least_for_largest},
    ),
    Claim(
        id="stable-width-lower",
        title="stable codes make covers",
        statement="""If n numbers describe a class within d, with 2-Lipschitz maps and codes in a ball of
        radius R >= d, then 2^N balls of radius 4d cover it at N = n log2(3R/d): members 4d apart have codes
        d apart. Rates of stable widths and of entropy numbers agree up to this logarithm.""",
        source=_SOURCE + "4d-balls, and a logarithm between the two rates",
        quick=Packings(numbers=2, errors=(0.2, 0.1, 0.05), points=4000),
        full=Packings(numbers=3, errors=(0.2, 0.1, 0.05, 0.03), points=40_000),
        figure=Curves("errors", "error d of the code"),
        wrong={"radius": scaled(1 / 4), "index": _as_many_bits_as_numbers},
    ),
)
