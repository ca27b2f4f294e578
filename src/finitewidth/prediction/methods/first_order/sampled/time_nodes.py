r"""Times at which products of decaying modes are evaluated one by one.

The projector weights do not factorise over modes, but as sums over training time they are made of terms
that do. At the end of training a few times are enough: nodes $\tau_j$ and weights $w_j$ with
$1/r\approx\sum_jw_je^{-\tau_jr}$ on the range of rates that occur (gradient flow), or
$\sum_jX^j\approx\sum_iw_iX^{j_i}$ with real powers (gradient descent), found by least squares. Training that
stops is sampled instead: times are drawn from bins that grow with time, which is exact on average.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import least_squares
from threadpoolctl import threadpool_limits

from finitewidth.algorithms.clocks import Clock
from finitewidth.algorithms.interface import SpectralAlgorithm

_GRID = 240
_FEWEST, _MOST, _PER_DECADE = 4, 40, 2.5
_BIN_GROWTH = 1.7
_FIRST_BIN = 0.3
# Beyond this exponent a product of modes has decayed to nothing.
_DECAYED = 40.0


class Times(NamedTuple):
    """One time for every sample, an earlier one where two are needed, and the weight of the pair.

    `part` says which of several sums over time the sample is a term of, `held` is one where a ridge pulls the
    source back once it is made. NumPy arrays (rows,) when they are drawn, columns (rows, 1, 1) in a batch.
    """

    late: Any
    early: Any
    late_odd: Any
    early_odd: Any
    weight: Any
    part: Any
    held: Any


class TimeStrata(ABC):
    """A division of training time; every sample belongs to one stratum."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of strata."""

    @abstractmethod
    def draw(self, rng: np.random.Generator, stratum: Int[np.ndarray, " rows"]) -> Times:
        """Times of samples whose strata are given."""


@dataclass(frozen=True)
class Nodes(TimeStrata):
    """Fixed times; `odd` marks odd numbers of steps where modes change sign at every step."""

    times: Float[np.ndarray, " nodes"]
    odd: Float[np.ndarray, " nodes"]
    weights: Float[np.ndarray, " nodes"]

    @property
    def count(self) -> int:
        return len(self.times)

    def draw(self, rng, stratum):
        time, odd = self.times[stratum], self.odd[stratum]
        none = np.zeros(len(stratum))
        return Times(time, time, odd, odd, self.weights[stratum], none, none)


# What needs no time: one stratum of weight one.
ONCE = Nodes(np.zeros(1), np.zeros(1), np.ones(1))


@dataclass(frozen=True)
class Bins(TimeStrata):
    """Times drawn from bins: whole numbers of steps, or real times; with an earlier time if `nested`."""

    edges: Float[np.ndarray, " edges"]
    whole: bool
    nested: bool

    @property
    def _pairs(self) -> list[tuple[int, int]]:
        bins = range(len(self.edges) - 1)
        return [(i, j) for i in bins for j in range(i + 1)] if self.nested else [(i, i) for i in bins]

    @property
    def count(self) -> int:
        return len(self._pairs)

    def draw(self, rng, stratum):
        pairs = np.array(self._pairs)[stratum]
        late, weight = self._uniform(rng, self.edges[pairs[:, 0]], self.edges[pairs[:, 0] + 1])
        none = np.zeros(len(stratum))
        if not self.nested:
            return Times(late, late, late % 2, late % 2, weight, none, none)
        ends = np.minimum(self.edges[pairs[:, 1] + 1], late)
        early, room = self._uniform(rng, self.edges[pairs[:, 1]], ends)
        return Times(late, early, late % 2, early % 2, weight * room, none, none)

    def _uniform(self, rng, start: np.ndarray, end: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        room = np.maximum(end - start, 0.0)
        time = start + room * rng.random(len(start))
        return (np.floor(time) if self.whole else time), room


@dataclass(frozen=True)
class Pairs(TimeStrata):
    """Two independent times, for the product of two sums over time."""

    single: TimeStrata

    @property
    def count(self) -> int:
        return self.single.count**2

    def draw(self, rng, stratum):
        late = self.single.draw(rng, stratum // self.single.count)
        early = self.single.draw(rng, stratum % self.single.count)
        weight = late.weight * early.weight
        return Times(late.late, early.late, late.late_odd, early.late_odd, weight, late.part, late.held)


@dataclass(frozen=True)
class Held(TimeStrata):
    """The same times, of sources that a ridge pulls back once they are made."""

    free: TimeStrata

    @property
    def count(self) -> int:
        return self.free.count

    def draw(self, rng, stratum):
        return self.free.draw(rng, stratum)._replace(held=np.ones(len(stratum)))


@dataclass(frozen=True)
class Parts(TimeStrata):
    """Several sums over time, each with its own strata, that are sampled as one."""

    parts: tuple[TimeStrata, ...]

    @property
    def count(self) -> int:
        return sum(part.count for part in self.parts)

    def draw(self, rng, stratum):
        found = np.zeros((len(Times._fields), len(stratum)))
        first = 0
        for index, part in enumerate(self.parts):
            own = (first <= stratum) & (stratum < first + part.count)
            found[:, own] = part.draw(rng, stratum[own] - first)._replace(part=np.full(own.sum(), index))
            first += part.count
        return Times(*found)


def time_strata(
    t: Float[np.ndarray, " k"],
    algorithm: SpectralAlgorithm,
    *,
    nested: bool,
    held: bool = False,
    tolerance: float = 1e-4,
) -> TimeStrata:
    """Nodes at the end of training, bins before it; `nested` weights need two times there.

    Where a ridge holds weights back, the last moments count as much as the first ones: `held`.
    """
    ticking = algorithm.clock()
    if algorithm.converged:
        return _nodes(t, ticking, tolerance)
    whole, end = not ticking.continuous, ticking.end
    first = 1.0 if whole else min(end, _FIRST_BIN / (ticking.rate * max(float(t.max()), 1e-300)))
    edges = [0.0, first]
    while edges[-1] < end:
        step = edges[-1] * _BIN_GROWTH
        edges.append(min(end, float(np.ceil(step)) if whole else step))
    growing = np.minimum(edges, end)
    if held:
        growing = np.unique(np.concatenate([growing[growing <= end / 2], end - growing[growing <= end / 2]]))
    return Bins(growing, whole, nested)


def _nodes(t: Float[np.ndarray, " k"], ticking: Clock, tolerance: float) -> Nodes:
    if ticking.continuous:
        times, weights = _fit(2 * t.min(), 3 * t.max(), _reciprocal, tolerance)
        return Nodes(times, np.zeros_like(times), weights)
    x = ticking.factor(t)
    rate = -np.log(np.clip(np.abs(x), 1e-300, 1 - 1e-15))
    slowest, fastest = 2 * rate.min(), min(3 * rate.max(), _DECAYED)
    if (x > -1e-12).all():
        times, weights = _fit(slowest, max(fastest, 2 * slowest), _steps, tolerance)
        return Nodes(np.append(times, 0.0), np.zeros(len(times) + 1), np.append(weights, 1.0))
    # Even and odd steps apart: within each the products keep their sign.
    times, weights = _fit(2 * slowest, max(2 * fastest, 4 * slowest), _steps, tolerance)
    even = 2 * np.append(times, 0.0)
    weights = np.append(weights, 1.0)
    odd = np.repeat([0.0, 1.0], len(even))
    return Nodes(np.concatenate([even, even + 1]), odd, np.tile(weights, 2))


def _reciprocal(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return 1 / r, 1 / r


def _steps(r: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """All steps but the first, whose term is one; accuracy is asked of the whole sum."""
    return np.exp(-r) / -np.expm1(-r), -1 / np.expm1(-r)


class _SumOfExponentials(NamedTuple):
    """Relative error of a sum of exponentials, with logarithms of nodes, then of weights, as parameters."""

    r: np.ndarray
    value: np.ndarray
    scale: np.ndarray

    def error(self, p: np.ndarray) -> np.ndarray:
        tau, w = np.exp(np.split(p, 2))
        return (np.exp(-np.outer(self.r, tau)) @ w - self.value) / self.scale

    def slope(self, p: np.ndarray) -> np.ndarray:
        tau, w = np.exp(np.split(p, 2))
        term = np.exp(-np.outer(self.r, tau)) * w / self.scale[:, None]
        return np.concatenate([-term * np.outer(self.r, tau), term], axis=1)


def _fit(low: float, high: float, target, tolerance: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and positive weights of a sum of exponentials, as few as the tolerance allows."""
    low, high = float(low), max(float(high), 1.5 * float(low))
    r = np.exp(np.linspace(np.log(low), np.log(high), _GRID))
    value, scale = target(r)
    # Fewer would not do: the number of nodes grows with the logarithm of the range.
    fewest = max(_FEWEST, round(_PER_DECADE * np.log10(high / low)))
    for n in range(fewest, _MOST + 1, 2):
        u = np.linspace(np.log(0.1 / high), np.log(3 / low), n)
        start = np.concatenate([u, u + np.log(u[1] - u[0])])

        room = np.concatenate([np.full(n, np.log(100.0)), np.full(n, np.log(1e6))])
        fit = _SumOfExponentials(r, value, scale)
        limits = (start - room, start + room)
        jac: Any = fit.slope
        # Threads of BLAS would spend far longer waiting for each other than these small matrices take.
        with threadpool_limits(1, "blas"):
            found = least_squares(fit.error, start, jac=jac, bounds=limits, max_nfev=300)
        if np.abs(found.fun).max() <= tolerance:
            return np.exp(found.x[:n]), np.exp(found.x[n:])
    raise ValueError(
        f"no {_MOST} training times reach accuracy {tolerance:.1e} for rates from {low:.2e} to {high:.2e}: "
        "the training kernel is close to singular; remove near-duplicate training points or stop training."
    )
