"""Points in few dimensions: what a linear map can keep, and how a Lipschitz map is extended."""

from dataclasses import dataclass

import jax
import numpy as np
from scipy.linalg import hadamard
from scipy.optimize import minimize
from scipy.spatial.distance import pdist

from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, lower_bound, upper_bound
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.entropy_and_widths.theory.embedding import (
    embedding_dimension,
    linear_contraction_dimension,
)
from finitewidth.course.entropy_and_widths.theory.extension import extend, image_within

_SOURCE = orf_543("11/28") + ", "


@dataclass(frozen=True)
class Projections:
    """Orthonormal points, and Gaussian matrices with more and more rows.

    The least number of rows, in units of log k, at which nine matrices of ten keep distances within [1/2, 1].
    """

    bits: tuple[int, ...]
    draws: int
    multiples: tuple[int, ...] = tuple(range(6, 40, 2))

    def theory(self) -> Prediction:
        need = np.array([embedding_dimension(2**n, 0.5) / np.log(2**n) for n in self.bits])
        # A number of rows is rounded up: 400 bits make that small.
        return {
            "need": need,
            "too few": np.full(len(self.bits), 8.0),
            "per bit": np.asarray(embedding_dimension(2**400, 0.5) / 400),
        }

    def measure(self, key) -> Measurement:
        rng = random_generator(key)
        shares = np.array(
            [[self.share_kept(rng, 2**n, multiple) for multiple in self.multiples] for n in self.bits]
        )
        need = [self.multiples[int(np.argmax(row >= 0.9))] if row.max() >= 0.9 else np.inf for row in shares]
        e = 0.6
        return {
            "need": exact(np.array(need, dtype=float)),
            "per bit": exact(4 * np.log(2) / (e**2 / 2 - e**3 / 3)),
        }

    def share_kept(self, rng: np.random.Generator, k: int, multiple: int) -> float:
        rows = int(np.ceil(multiple * np.log(k)))
        kept = 0
        for _ in range(self.draws):
            # Columns of the matrix are the images of orthonormal vectors.
            distances = pdist(rng.standard_normal((k, rows)))
            kept += distances.min() >= 0.5 * distances.max()
        return kept / self.draws

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            upper_bound("rows / log k that nine of ten need", predicted["need"], measured["need"]),
            lower_bound("rows / log k that are too few", predicted["too few"], measured["need"]),
            absolute_error("rows per bit", predicted["per bit"], measured["per bit"], 1 / 400),
        ]


def _eight_logarithms(setting: Projections, value: np.ndarray) -> np.ndarray:
    return np.full_like(value, 8.0)


def _binary_logarithm(setting: Projections, value: np.ndarray) -> np.ndarray:
    return np.asarray(value / np.log(2))


@dataclass(frozen=True)
class Contractions:
    """Linear maps of norm one with m rows on zero and D orthonormal vectors."""

    vectors: int
    rows: tuple[int, ...]
    draws: int

    def theory(self) -> Prediction:
        # (1 - epsilon)^2 D = m, solved for the least length 1 - epsilon.
        per_unit = linear_contraction_dimension(self.vectors, 0.5) / 0.25
        least = np.sqrt(np.array(self.rows) / per_unit)
        return {"best": least, "drawn": least}

    def measure(self, key) -> Measurement:
        signs = hadamard(self.vectors) / np.sqrt(self.vectors)
        rng = random_generator(key)
        best, drawn = [], []
        for m in self.rows:
            # Rows of a Hadamard matrix: orthonormal, with columns of one length.
            chosen = signs[rng.permutation(self.vectors)[:m]]
            best.append(_least_length(chosen))
            drawn.append(max(_least_length(rng.standard_normal(chosen.shape)) for _ in range(self.draws)))
        return {"best": exact(np.array(best)), "drawn": exact(np.array(drawn))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("least length, equal columns", predicted["best"], measured["best"].value, 1e-9),
            upper_bound("least length, Gaussian matrices", predicted["drawn"], measured["drawn"]),
        ]


def _least_length(A: np.ndarray) -> float:
    """The least length of a column, in units of the norm of the matrix."""
    return float(np.linalg.norm(A, axis=0).min() / np.sqrt(np.linalg.eigvalsh(A @ A.T)[-1]))


def _half_is_kept(setting: Contractions, value: np.ndarray) -> np.ndarray:
    """What Gaussian maps that contract the points alone would do."""
    return np.full_like(value, 0.5)


def _coordinates(setting: Contractions, value: np.ndarray) -> np.ndarray:
    """Projection onto m coordinates, which kills the other vectors."""
    return np.zeros_like(value)


@dataclass(frozen=True)
class Extensions:
    """One more point for maps between Euclidean spaces, and for one from the plane with the maximum norm."""

    maps: int
    points: int
    dimension: int = 6
    target: int = 4

    def theory(self) -> Prediction:
        triangle = (
            2 * np.array([[np.cos(t), np.sin(t)] for t in np.pi * np.array([0, 2, 4]) / 3]) / np.sqrt(3)
        )
        planar = image_within(triangle, np.ones(3)).constant
        spatial = image_within(np.pad(triangle, ((0, 0), (0, 3))), np.ones(3)).constant
        return {"triangle": np.array([planar, spatial]), "euclidean": np.ones(self.maps)}

    def measure(self, key) -> Measurement:
        turn = float(jax.random.uniform(key)) * np.pi
        corners = 2 / np.sqrt(3) * np.exp(1j * (turn + 2 * np.pi * np.arange(3) / 3))
        found = []
        for extra in (0, 3):
            corner = np.concatenate(
                [np.stack([corners.real, corners.imag], axis=1), np.zeros((3, extra))], axis=1
            )
            # The last variable is the squared radius of a ball around all corners.
            room = lambda v, c=corner: v[-1] - np.sum((v[:-1] - c) ** 2, axis=1)
            start = np.append(np.full(2 + extra, 0.2), 9.0)
            ball = minimize(
                lambda v: v[-1], start, constraints={"type": "ineq", "fun": room}, options={"ftol": 1e-14}
            )
            found.append(np.sqrt(ball.fun))
        rng = random_generator(jax.random.fold_in(key, 1))
        constants = []
        for _ in range(self.maps):
            known, new = rng.normal(size=(self.points, self.dimension)), rng.normal(size=self.dimension)
            images = np.sin(2 * known @ rng.normal(size=(self.dimension, self.target)))
            images /= np.max(pdist(images) / pdist(known))
            constants.append(extend(known, images, new).constant)
        return {"triangle": exact(np.array(found)), "euclidean": exact(np.array(constants))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            absolute_error("maximum norm", predicted["triangle"], measured["triangle"].value, 1e-5),
            upper_bound("Euclidean spaces", predicted["euclidean"] * (1 + 1e-6), measured["euclidean"]),
        ]


def _constant_one(setting: Extensions, value: np.ndarray) -> np.ndarray:
    return np.ones_like(value)


def _more_room_helps(setting: Extensions, value: np.ndarray) -> np.ndarray:
    """Constant one once the target has more dimensions."""
    return np.array([value[0], 1.0])


CLAIMS = (
    Claim(
        id="johnson-lindenstrauss-dimension",
        title="dimensions that keep all distances",
        statement="""k points embed linearly with all distances scaled into [1 - eps, 1] in 4 ln k / (e^2/2 -
        e^3/3) dimensions, (1 - e)/(1 + e) = (1 - eps)^2: at eps = 1/2 in 37.04 ln k, or 25.7 for each bit of
        ln k / ln 2. Fewer do, but 8 ln k are too few.""",
        source=_SOURCE + "Johnson and Lindenstrauss; 32 n suffice because 25.7 n do",
        quick=Projections(bits=(6, 7, 8), draws=20),
        full=Projections(bits=(6, 7, 8, 9), draws=100),
        wrong={"need": _eight_logarithms, "too few": scaled(5.0), "per bit": _binary_logarithm},
        bounds={"need": "above", "too few": "below"},
    ),
    Claim(
        id="jl-linear-contraction-impossible",
        title="linear maps that contract the whole space lose distances",
        statement="""A linear map of norm at most one with m rows sends one of D orthonormal vectors to a
        length of at most sqrt(m/D), and there are maps that keep all at this length. So it cannot embed 0
        and D orthonormal vectors with distances in [1 - eps, 1] unless m >= (1 - eps)^2 D.""",
        source=_SOURCE + "the embedding is 1-Lipschitz on the points, not on the space",
        quick=Contractions(vectors=1024, rows=(55, 128), draws=2),
        full=Contractions(vectors=4096, rows=(66, 128, 266), draws=2),
        wrong={"best": (_half_is_kept, _coordinates)},
        bounds={"drawn": "above"},
    ),
    Claim(
        id="kirszbraun-hilbert-only",
        title="Lipschitz maps extend between Euclidean spaces only",
        statement="""A Lipschitz map between Euclidean spaces extends to one more point with the same
        constant. Three points of the plane with the maximum norm, 2 apart and at distance 1 from the origin,
        sent to an equilateral triangle of side 2, leave no place for the origin: the constant grows to
        2/sqrt(3), however many dimensions the target has.""",
        source=_SOURCE + "Kirszbraun; Hilbert spaces only",
        quick=Extensions(maps=10, points=20),
        full=Extensions(maps=100, points=60),
        wrong={"triangle": (_constant_one, _more_room_helps)},
        bounds={"euclidean": "above"},
    ),
)
