"""Slopes of a neuron at other points, given that it is at a kink at one point."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtr

from finitewidth._base.tracing import outside_tracing
from finitewidth.architecture.activations import Activation
from finitewidth.expectations.four_factors.derivative_moments import tower
from finitewidth.expectations.kinked.kinks import Kink

# A Gaussian has nothing left beyond so many standard deviations.
_REACH = 9.0
_PANEL = 3.0
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
# A standard deviation below this share of the preactivation's is rounding.
_FIXED = 1e-7


class Slope(NamedTuple):
    """s' as steps at the kinks plus a continuous rest; `rest` is a number where s is piecewise linear."""

    kinks: tuple[Kink, ...]
    function: Callable[[Array], Array]
    rest: float | None

    @classmethod
    def of(cls, activation: Activation) -> "Slope":
        """Look whether the rest is constant."""
        kinks = activation.kinks
        slope = cls(kinks, activation.function, None)
        places = np.array([k.at for k in kinks])
        grid = np.unique(np.concatenate([np.linspace(-8, 8, 100), *(places[:, None] + [-0.5, 0.5])]))
        rest = slope._rest(grid)
        same = np.ptp(rest) <= 1e-12 * np.abs(rest).max(initial=1.0)
        return slope._replace(rest=float(rest[0])) if same else slope

    def __call__(self, z: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """s'(z)."""
        return self._rest(z) + sum(k.jump * (z > k.at) for k in self.kinks)

    def mean(self, middle: Float[np.ndarray, "*s"], spread: Float[np.ndarray, "*s"]) -> np.ndarray:
        """E s'(middle + spread u), u ~ N(0, 1)."""
        middle, spread = np.broadcast_arrays(middle, spread)
        fixed = spread == 0
        scale = np.where(fixed, 1.0, spread)
        steps = [k.jump * np.where(fixed, middle > k.at, ndtr((middle - k.at) / scale)) for k in self.kinks]
        if self.rest is not None:
            return np.sum(steps, axis=0) + self.rest
        u, weight = panels(np.stack([(k.at - middle) / scale for k in self.kinks], axis=-1))
        rest = np.sum(weight * self._rest(middle[..., None] + scale[..., None] * u), axis=-1)
        return np.where(fixed, self._rest(middle), rest) + sum(steps)

    def _rest(self, z: Float[np.ndarray, "*s"]) -> np.ndarray:
        if self.rest is not None:
            return np.full(z.shape, self.rest)
        # Filled up to a power of two, so that few sizes are compiled.
        filled = np.zeros(2 ** math.ceil(math.log2(max(z.size, 1))))
        filled[: z.size] = z.ravel()
        with outside_tracing():
            slope = np.asarray(tower(self.function, filled, 1)[1])[: z.size].reshape(z.shape)
        return slope - sum(k.jump * (z > k.at) for k in self.kinks)


def panels(breaks: Float[np.ndarray, "*s breaks"]) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for a standard Gaussian, in panels that end at the breaks: both (*s, nodes)."""
    fixed = np.linspace(-_REACH, _REACH, round(2 * _REACH / _PANEL) + 1)
    inside = np.clip(breaks, -_REACH, _REACH)
    edges = np.sort(
        np.concatenate([inside, np.broadcast_to(fixed, (*breaks.shape[:-1], len(fixed)))], axis=-1)
    )
    half, middle = np.diff(edges)[..., None] / 2, (edges[..., 1:] + edges[..., :-1])[..., None] / 2
    u = (middle + half * _NODES).reshape(*breaks.shape[:-1], -1)
    weight = (half * _WEIGHTS).reshape(u.shape) * np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi)
    return u, weight


class Patterns(NamedTuple):
    """Slopes at the other training points, the probability of each, and mean slopes at the test points.

    `test` is the mean slope given the pattern, times its probability.
    """

    slopes: Float[np.ndarray, "patterns others"]
    weight: Float[np.ndarray, " patterns"]
    test: Float[np.ndarray, "patterns test"]


def patterns(
    slope: Slope,
    K: Float[np.ndarray, "points points"],
    at: int,
    kink: Kink,
    others: list[int],
    test: list[int],
) -> Patterns:
    """Slopes at up to two other training points of a neuron that is at a kink at the point `at`."""
    given, place = [at], np.full((1, 1), kink.at)
    weight, slopes = np.ones(1), np.zeros((1, 0))
    for b in others:
        middle, spread = _conditional(K, b, given, place)
        breaks = np.stack([(k.at - middle) / (spread or 1.0) for k in slope.kinks], axis=-1)
        u, w = panels(breaks) if spread else (np.zeros((len(middle), 1)), np.ones((len(middle), 1)))
        z = middle[:, None] + spread * u
        repeat = lambda a, n=u.shape[1]: np.repeat(a, n, axis=0)
        place = np.concatenate([repeat(place), z.reshape(-1, 1)], axis=1)
        slopes = np.concatenate([repeat(slopes), slope(z).reshape(-1, 1)], axis=1)
        weight = (weight[:, None] * w).ravel()
        given.append(b)
    at_test = np.zeros((len(weight), len(test)))
    for i, d in enumerate(test):
        middle, spread = _conditional(K, d, given, place)
        at_test[:, i] = weight * slope.mean(middle, np.full_like(middle, spread))
    # Where s is piecewise linear, few patterns are different.
    rounded, number = np.unique(np.round(slopes, 12), axis=0, return_inverse=True)
    number = number.ravel()
    if len(rounded) == len(slopes):
        return Patterns(slopes, weight, at_test)
    gathered = np.zeros((len(rounded), len(test)))
    np.add.at(gathered, number, at_test)
    return Patterns(rounded, np.bincount(number, weight, len(rounded)), gathered)


def _conditional(K: np.ndarray, d: int, given: list[int], place: Float[np.ndarray, "nodes given"]):
    """Mean and standard deviation of one preactivation, given those at other points."""
    block = K[np.ix_(given, given)]
    pull = np.linalg.solve(block, K[given, d])
    variance = K[d, d] - K[given, d] @ pull
    spread = math.sqrt(max(variance, 0.0)) if variance > _FIXED**2 * K[d, d] else 0.0
    return place @ pull, spread
