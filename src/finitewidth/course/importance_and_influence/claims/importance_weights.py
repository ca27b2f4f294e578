"""Importance weights in logistic regression: forgotten on separable data, kept by a penalty or by overlap."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import root

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.importance_and_influence.networks.importance_weights import (
    logistic_flow,
    ridge_logistic,
)
from finitewidth.course.importance_and_influence.theory.importance_weights import (
    ImportanceEffect,
    importance_effect,
)

# Weights of the two support vectors and of all other points.
_HEAVY, _LIGHT, _OTHERS = 20.0, 1.0, 5.0
# Data are drawn anew until the slowest terms, exp(-gap log t) and 1/t of the support, are this fast.
_LEAST = 0.25


@dataclass(frozen=True)
class Separable(RandomProblem):
    """Points of two classes in the plane, divided by a line through the origin, with two support vectors."""

    points: int = 12

    def drawn_points(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Inputs, labels and weights: one support vector is heavy, the other light."""
        for attempt in range(1000):
            rng = self.rng(0, attempt)
            labels = np.where(np.arange(self.points) % 2, 1, -1)
            centre = rng.normal(size=2)
            centre *= 2 / np.linalg.norm(centre)
            x = labels[:, None] * centre + rng.normal(size=(self.points, 2))
            ends = _support(x * labels[:, None])
            if ends is not None:
                weights = np.full(self.points, _OTHERS)
                weights[list(ends)] = _HEAVY, _LIGHT
                return x, labels, weights
        raise ValueError("no separable points were drawn.")

    def effect(self) -> ImportanceEffect:
        """The theory of the drawn points."""
        return importance_effect(*self.drawn_points())


def _support(z: np.ndarray) -> tuple[int, int] | None:
    """The two support vectors of points in the plane, by trying all pairs; None without a clear pair.

    A pair with z theta = 1 is the support when all others are beyond and both multipliers are positive. It
    is clear when the others are well beyond and the multipliers are not small.
    """
    for i in range(len(z)):
        for j in range(i):
            pair = z[[i, j]]
            if abs(np.linalg.det(pair)) < 1e-6:
                continue
            theta = np.linalg.solve(pair, np.ones(2))
            alpha = np.linalg.solve(pair.T, theta)
            others = np.delete(z, (i, j), axis=0) @ theta
            if (others > 1).all() and (alpha > 0).all():
                rates = np.linalg.eigvalsh((pair.T * alpha) @ pair)
                clear = min(rates[0], others.min() - 1) > _LEAST
                return (i, j) if clear else None
    return None


@dataclass(frozen=True)
class Forgotten(Separable):
    """Gradient flow with and without weights; log t counts in units of 16 over the slowest rate."""

    multiples: tuple[float, ...] = (1.0, 2.0, 4.0)

    @property
    def log_times(self) -> np.ndarray:
        return 16 / _LEAST * np.array(self.multiples)

    def theory(self) -> Prediction:
        effect = self.effect()
        return {
            "difference": np.array([effect.difference(tau) for tau in self.log_times]),
            "constant": np.array(effect.constant),
            "shift": effect.offset - effect.plain_offset,
        }

    def measure(self, key) -> Measurement:
        x, y, weights = self.drawn_points()
        ends = [logistic_flow(x, y, w, self.log_times) for w in (weights, np.ones(len(x)))]
        units = [end / np.linalg.norm(end, axis=1, keepdims=True) for end in ends]
        difference = np.linalg.norm(units[0] - units[1], axis=1)
        return {
            "difference": exact(difference),
            "constant": exact(difference * self.log_times),
            "shift": exact(ends[0][-1] - ends[1][-1]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # Directions are theta/|theta| with |theta| = |direction| log t + O(1).
        last = measured["constant"].value[-1]
        return [
            relative_error(
                "difference of the directions", predicted["difference"], measured["difference"], 1e-6
            ),
            absolute_error("shift of theta by the weights", predicted["shift"], measured["shift"], 1e-6),
            relative_error("difference times log t at the end", predicted["constant"], last, 0.1),
        ]


def _weights_for_their_logarithms(setting: Forgotten, value: np.ndarray) -> np.ndarray:
    """The shift that solves z_i . shift = w_i on the support."""
    effect, (x, y, weights) = setting.effect(), setting.drawn_points()
    active = (x * y[:, None])[effect.support]
    return np.linalg.solve(active, weights[effect.support])


def _never_forgotten(setting: Forgotten, value: np.ndarray) -> np.ndarray:
    """A difference that stays as it is at the first time."""
    return np.broadcast_to(value[:1], value.shape)


@dataclass(frozen=True)
class Kept(Separable):
    """Minima with a ridge that falls to nothing, and with labels that no line divides."""

    ridges: tuple[float, ...] = (1e-10, 1e-100, 1e-300)
    large_ridge: float = 1e-2
    flipped: int = 4

    @property
    def crossed(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The same data, whose first points occur once more with the other label: no line divides them."""
        x, y, weights = self.drawn_points()
        again = slice(self.flipped)
        return (
            np.concatenate([x, x[again]]),
            np.concatenate([y, -y[again]]),
            np.concatenate([weights, np.ones(self.flipped)]),
        )

    def theory(self) -> Prediction:
        effect = self.effect()
        logs = -np.log(self.ridges)
        return {
            "ridge": np.array([effect.ridge_difference(log) for log in logs]),
            "large ridge": _difference(_balanced, *self.drawn_points(), self.large_ridge),
            "overlapping": _difference(_balanced, *self.crossed, 0.0),
        }

    def measure(self, key) -> Measurement:
        small = [_difference(ridge_logistic, *self.drawn_points(), ridge) for ridge in self.ridges]
        return {
            "ridge": exact(np.array(small)),
            "large ridge": exact(_difference(ridge_logistic, *self.drawn_points(), self.large_ridge)),
            "overlapping": exact(_difference(ridge_logistic, *self.crossed, 0.0)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {
            "large ridge": f"difference of the directions with a ridge of {self.large_ridge:g}",
            "overlapping": "difference of the directions without a ridge, classes overlapping",
        }
        # The next order of the ridge's law is 1/log(1/r).
        within = 3 / -np.log(self.ridges)
        name = "difference of the directions, small ridge"
        return [
            relative_error(name, predicted["ridge"], measured["ridge"], within, "the next order, 1/log(1/r)"),
            *(relative_error(text, predicted[key], measured[key], 1e-6) for key, text in texts.items()),
        ]


def _difference(
    minimum: Callable[..., np.ndarray], x: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: float
) -> np.ndarray:
    """Distance of the directions of two minima, with weights and without."""
    ends = [minimum(x, y, w, ridge) for w in (weights, np.ones(len(x)))]
    units = [end / np.linalg.norm(end) for end in ends]
    return np.asarray(np.linalg.norm(units[0] - units[1]))


def _balanced(x: np.ndarray, y: np.ndarray, weights: np.ndarray, ridge: float) -> np.ndarray:
    """Where the pulls w_i z_i / (1 + exp(z_i theta)) of all points balance the penalty."""
    z, w = x * y[:, None], weights / len(x)
    pull = lambda theta: w / (1 + np.exp(z @ theta))
    found = root(
        lambda theta: z.T @ pull(theta) - ridge * theta,
        np.zeros(x.shape[1]),
        jac=lambda theta: -(z.T * pull(theta) / (1 + np.exp(-z @ theta))) @ z - ridge * np.eye(x.shape[1]),
        tol=1e-13,
    )
    return found.x


def _root_of_the_ridge(setting: Kept, value: np.ndarray) -> np.ndarray:
    """Falling like the root of the ridge."""
    ridges = np.array(setting.ridges)
    return value[0] * np.sqrt(ridges / ridges[0])


def _no_effect(setting: Kept, value: np.ndarray) -> np.ndarray:
    """Weights that do next to nothing."""
    return np.full_like(value, 1e-6)


_SOURCE = f"{IEMS_402}, importance weights"

CLAIMS = (
    Claim(
        id="importance-weights-vanish",
        title="on separable data importance weights are forgotten like 1/log t",
        statement="""Gradient flow on the logistic loss of separable points, whose support vectors are a
        basis, follows theta log t + rho. Positive weights w_i leave theta as it is and shift rho by the
        solution of z_i.shift = log w_i on the support vectors, so that directions with and without weights
        differ by C/log t. Weights of other points do nothing at this order.""",
        source=_SOURCE,
        quick=Forgotten(),
        full=Forgotten(points=40, multiples=(0.5, 1.0, 2.0, 4.0, 8.0)),
        figure=Curves("log_times", r"$\log t$"),
        wrong={"difference": _never_forgotten, "shift": _weights_for_their_logarithms},
    ),
    Claim(
        id="importance-weights-matter",
        title="weights matter with a penalty or with overlapping classes",
        statement="""With a ridge r the minimum on separable points depends on the weights, and its
        direction forgets them no faster than C/log(1/r), with the same C as gradient flow at a time t with
        t log t = 1/r. Where no line divides the classes, weights change the minimum for good.""",
        source=_SOURCE,
        quick=Kept(),
        full=Kept(points=40, ridges=(1e-10, 1e-30, 1e-100, 1e-200, 1e-300)),
        wrong={
            "ridge": (_root_of_the_ridge, scaled(1.5)),
            "large ridge": _no_effect,
            "overlapping": _no_effect,
        },
    ),
)
