"""Stable descriptions of a class and its entropy numbers: each bounds the other."""

from dataclasses import dataclass

import numpy as np
from scipy.spatial.distance import cdist

from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.entropy_and_widths.theory.extension import extend
from finitewidth.course.entropy_and_widths.theory.stable_widths import (
    StableCode,
    entropy_from_stable_width,
    stable_code,
)

_SOURCE = orf_543("11/28") + ", stable widths; "


@dataclass(frozen=True)
class Codes(RandomProblem):
    """Random vectors whose entries fall off, more of them than centres of a cover.

    A second class are small balls around the same centres: there encoder and decoder can be chosen that lose
    as much as any can.
    """

    bits: int
    dimension: int
    others: int
    decay: float = 0.6
    ball: float = 0.02

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
            "worst error": np.asarray(3 * self.ball),
            "worst encoder": np.asarray(1.0),
            "worst decoder": np.asarray(2.0),
        }

    def measure(self, key) -> Measurement:
        points = self.points
        code = stable_code(points, self.bits, key)
        rest = points[cdist(points, code.centres).min(axis=1) > 0][: self.others]
        coded = [extend(code.centres, code.codes, point) for point in rest]
        back = [extend(code.codes, code.centres, one.image, 2.0) for one in coded]
        return {
            **self._worst(code, random_generator(key)),
            "error": exact(np.array([np.linalg.norm(p - b.image) for p, b in zip(rest, back, strict=True)])),
            "encoder": exact(np.array([one.constant for one in coded])),
            "decoder": exact(np.array([one.constant for one in back])),
        }

    def _worst(self, code: StableCode, rng: np.random.Generator) -> Measurement:
        """Members of small balls with the code farthest from the centre's, and the point farthest from there.

        Codes and points are pushed as far as all centres allow; the largest of each is kept.
        """
        found = []
        for k in range(self.others):
            others = np.arange(len(code.centres)) != k
            out, push = (_unit(rng, part.shape[1]) for part in (code.centres, code.codes))
            centre, image = code.centres[k], code.codes[k]
            member = centre + self.ball * out
            distances = np.linalg.norm(member - code.centres, axis=1)
            way = _farthest(image, push, code.codes[others], distances[others])
            coded = image + min(way, self.ball) * push
            allowed = 2 * np.linalg.norm(coded - code.codes, axis=1)
            way = _farthest(centre, -out, code.centres[others], allowed[others])
            decoded = centre - min(way, float(allowed[k])) * out
            stretched = np.linalg.norm(decoded - code.centres, axis=1) / (allowed / 2)
            found.append((np.linalg.norm(member - decoded), (allowed / 2 / distances).max(), stretched.max()))
        error, encoder, decoder = np.max(found, axis=0)
        return {
            "worst error": exact(error),
            "worst encoder": exact(encoder),
            "worst decoder": exact(decoder),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {"error": "distance after decoding", "encoder": "encoder", "decoder": "decoder"}
        worst = {
            "worst error": "small balls, farthest",
            "worst encoder": "its encoder",
            "worst decoder": "its decoder",
        }
        return [
            *(
                upper_bound(text, predicted[name] * (1 + 1e-6), measured[name])
                for name, text in texts.items()
            ),
            *(absolute_error(text, predicted[name], measured[name], 1e-9) for name, text in worst.items()),
        ]


def _unit(rng: np.random.Generator, size: int) -> np.ndarray:
    direction = rng.standard_normal(size)
    return direction / np.linalg.norm(direction)


def _farthest(start: np.ndarray, direction: np.ndarray, others: np.ndarray, allowed: np.ndarray) -> float:
    """How far one can go from a point and stay within the allowed distances of others; 0 if nowhere."""
    away = start - others
    along = away @ direction
    left = along**2 + allowed**2 - np.sum(away**2, axis=1)
    return max(0.0, float(np.min(np.sqrt(np.maximum(left, 0.0)) - along))) if (left >= 0).all() else 0.0


def _radius_of_the_cover(points: np.ndarray, count: int) -> float:
    """The radius of the cover by points chosen one by one, each farthest from those before."""
    nearest = np.linalg.norm(points - points[0], axis=1)
    for _ in range(count - 1):
        nearest = np.minimum(nearest, np.linalg.norm(points - points[np.argmax(nearest)], axis=1))
    return float(nearest.max())


def _average_radius(setting: Codes, value: np.ndarray) -> np.ndarray:
    """The average distance of a member from its nearest centre, in place of 3 times the largest."""
    points, chosen = setting.points, [0]
    nearest = np.linalg.norm(points - points[0], axis=1)
    for _ in range(2**setting.bits - 1):
        chosen.append(int(np.argmax(nearest)))
        nearest = np.minimum(nearest, np.linalg.norm(points - points[chosen[-1]], axis=1))
    return np.full_like(value, np.delete(nearest, chosen).mean())


def _least_for_largest(setting: Codes, value: np.ndarray) -> np.ndarray:
    """The least factor of a distance, 1/2, taken for the Lipschitz constant."""
    return value / 2


def _decoder_without_stretch(setting: Codes, value: np.ndarray) -> np.ndarray:
    """|x - c| + |E(x) - E(c)|: as if the centres had kept all distances."""
    return np.asarray(2 * setting.ball)


def _linear_encoder(setting: Codes, value: np.ndarray) -> np.ndarray:
    """The linear map of the embedding for the encoder: off the centres it stretches by 1 + sqrt(d/m)."""
    stretch = 1 + np.sqrt(setting.dimension / (26 * setting.bits))
    return np.asarray((1 + 2 * stretch) * setting.ball)


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
        at a time. No extension does worse, and around centres that lie far apart some lose 3 eps exactly.""",
        source=_SOURCE + "26 n numbers; meaningful from n = 8 on",
        quick=Codes(bits=8, dimension=300, others=6),
        full=Codes(bits=9, dimension=600, others=40),
        bounds={"error": "above", "encoder": "above", "decoder": "above"},
        wrong={
            "error": _average_radius,
            "encoder": _least_for_largest,
            "worst error": (_decoder_without_stretch, _linear_encoder),
            "worst encoder": scaled(1 / 2),
            "worst decoder": scaled(1 / 2),
        },
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
        bounds={"index": "above", "radius": "above"},
        wrong={"radius": scaled(1 / 4), "index": _as_many_bits_as_numbers},
    ),
)
