"""The law of a positive scale as nodes with weights, by the trapezoidal rule in its logarithm."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray
from scipy.interpolate import CubicSpline
from scipy.optimize import root_scalar
from scipy.special import logsumexp, ndtr

from finitewidth.statistics.exact.deep_linear import ChiSquareProduct

# Nodes with less than e^-38 of the largest weight are left out.
_NEGLIGIBLE = 38.0
# Nodes that a side grows by at a time.
_BLOCK = 12
# Steps between two nodes where the law is sampled.
_FINER = 16


class ScaleNodes(NamedTuple):
    """Values of s with their probabilities; `log_total` is the log of what the probabilities summed to."""

    s: Float[np.ndarray, " nodes"]
    weights: Float[np.ndarray, " nodes"]
    log_total: float

    def two_sided(self, probability: float) -> float:
        """How far a Gaussian of random variance s goes to either side with this probability."""
        root = np.sqrt(self.s)
        beyond = lambda distance: float(2 * ndtr(-distance / root) @ self.weights - (1 - probability))
        end = root.max()
        while beyond(end) > 0:
            end *= 2
        return float(root_scalar(beyond, bracket=(0.0, end), method="brentq").root)

    def sample(self, key: PRNGKeyArray, draws: int) -> Float[Array, " draws"]:
        """Draws from the law between the nodes: a spline through the log density, summed up and inverted."""
        if len(self.s) == 1:
            return jnp.full(draws, self.s[0])
        places = np.log(self.s)
        fine = np.linspace(places[0], places[-1], _FINER * len(places))
        density = np.exp(CubicSpline(places, np.log(self.weights))(fine))
        cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2)])
        uniform = jax.random.uniform(key, (draws,), maxval=cumulative[-1])
        return jnp.exp(jnp.interp(uniform, cumulative, fine))


class ScaleLattice:
    """Equally spaced values of log s with their prior densities, each computed once.

    Parameters
    ----------
    prior
        The law of s without data.
    points
        Labels behind the likelihood: they tell how narrow the posterior is.
    around
        A value of s that has weight.
    """

    def __init__(self, prior: ChiSquareProduct, points: int, around: float = 1.0):
        self.prior = prior
        self.first = float(np.log(around))
        self.step = float(0.5 / np.sqrt(1 / prior.variance_log + points / 2)) if prior.widths else 0.0
        self._known: dict[int, float] = {}

    def nodes(self, log_factor: Callable[[np.ndarray], np.ndarray]) -> ScaleNodes:
        """The prior times a factor, given as the log likelihood at values of log s."""
        if not self.prior.widths:
            return ScaleNodes(np.ones(1), np.ones(1), float(log_factor(np.zeros(1))[0]))
        places = np.arange(-_BLOCK, _BLOCK + 1)
        values = self._log_weights(places, log_factor)
        # Past the top both the prior and the likelihood fall, so that a negligible last block ends a side.
        while self._counts(values, values[0], values[1]):
            more = np.arange(places[0] - _BLOCK, places[0])
            places = np.concatenate([more, places])
            values = np.concatenate([self._log_weights(more, log_factor), values])
        while self._counts(values, values[-1], values[-2]):
            more = np.arange(places[-1] + 1, places[-1] + 1 + _BLOCK)
            places = np.concatenate([places, more])
            values = np.concatenate([values, self._log_weights(more, log_factor)])
        kept = values > values.max() - _NEGLIGIBLE
        places, values = places[kept], values[kept]
        total = float(np.asarray(logsumexp(values)))
        s = np.exp(self.first + self.step * places)
        return ScaleNodes(s, np.exp(values - total), total + float(np.log(self.step)))

    @staticmethod
    def _counts(values: np.ndarray, end: float, inside: float) -> bool:
        return bool(end > values.max() - _NEGLIGIBLE or end > inside)

    def _log_weights(self, places: np.ndarray, log_factor: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        logs = self.first + self.step * places
        for place, log_s in zip(places.tolist(), logs.tolist(), strict=True):
            if place not in self._known:
                self._known[place] = self.prior.log_density(log_s)
        return np.array([self._known[place] for place in places.tolist()]) + log_factor(logs)
