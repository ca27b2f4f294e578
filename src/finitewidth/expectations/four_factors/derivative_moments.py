r"""Gaussian averages of products of an activation's derivatives at two points, for many points at once.

For jointly Gaussian $z_a, z_b$ with correlation $\rho_{ab}$ and any two functions, Mehler's formula reads

$$\langle f(z_a)\,g(z_b)\rangle=\sum_j f_j(a)\,g_j(b)\,\rho_{ab}^j,$$

with $f_j(a)$ the coefficient of $f(\sqrt{K_{aa}}\,u)$ in normalised Hermite polynomials. Here f and g are
products of derivatives of $\sigma$; the case of one derivative each is
$M_{kl}[a,b]=\langle\sigma^{(k)}_a\sigma^{(l)}_b\rangle$.
"""

import functools
import warnings
from abc import ABC, abstractmethod

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Bool, Float

from finitewidth._base.arrays import Elementwise
from finitewidth._base.derivatives import value_and_derivatives
from finitewidth.expectations.kinked.kinks import shape_at_zero
from finitewidth.expectations.quadrature import gaussian_rule, hermite_projector

# A product of derivatives of sigma at one point, by their orders: (0, 2) is sigma * sigma''.
Factor = tuple[int, ...]

HIGHEST_DERIVATIVE = 5
_LADDER = (64, 128, 256, 512, 1024)
# The quadratic mean of a truncated tail cannot be told from rounding below this.
_PARSEVAL_FLOOR = 1e-14


def is_smooth(function: Elementwise) -> bool:
    """Whether the function and its derivatives up to the fifth are continuous at zero."""
    try:
        return not shape_at_zero(function).jumps
    except ValueError:  # a jump of the function itself
        return False


# The function and its derivatives, elementwise, compiled.
tower = functools.partial(jax.jit, static_argnums=(0, 2))(value_and_derivatives)


class NeuronMoments(ABC):
    """Averages over one layer's neurons, each computed when first asked for.

    Parameters
    ----------
    function
        The activation.
    K
        Covariance of the preactivations, (points, points), with a positive diagonal.
    tolerance
        Bound on what the truncated series leaves out, relative to the two factors' root mean squares.
    highest
        The highest derivative that is evaluated at the nodes.
    more
        How many coefficients of a factor are computed beyond the terms of the series.
    """

    def __init__(
        self, function: Elementwise, K: Float[np.ndarray, "p p"], tolerance: float, highest: int, more: int
    ):
        self._std = np.sqrt(np.diag(K))
        self._rho = np.clip(K / np.outer(self._std, self._std), -1.0, 1.0)
        self._function, self._highest = function, highest
        self._terms = self._terms_needed(tolerance)
        self._known = self._terms + more
        self._weights = gaussian_rule(self._known).weights
        self._derivatives = self._at_nodes(self._std, self._known)
        self._coefficients: dict[Factor, np.ndarray] = {}
        self._averages: dict[tuple[Factor, Factor], np.ndarray] = {}

    def __call__(self, rows: Factor, columns: Factor) -> Float[np.ndarray, "p p"]:
        """<f(z_a) g(z_b)> for every pair of points, f and g given by the orders of their factors."""
        rows, columns = tuple(sorted(rows)), tuple(sorted(columns))
        if (columns, rows) in self._averages:
            return self._averages[columns, rows].T
        if (rows, columns) not in self._averages:
            self._averages[rows, columns] = self._computed(rows, columns)
        return self._averages[rows, columns]

    def _computed(self, rows: Factor, columns: Factor) -> Float[np.ndarray, "p p"]:
        own = self._own((*rows, *columns))
        if not (rows and columns):
            return np.broadcast_to(own if not rows else own[:, None], self._rho.shape)
        average = np.array(_mehler(self._series(rows), self._series(columns), self._rho))
        return np.where(self._same_point, own[:, None], average)

    @property
    @abstractmethod
    def _same_point(self) -> Bool[np.ndarray, "p p"]:
        """Pairs whose two factors are at one point."""

    @abstractmethod
    def _own(self, factor: Factor) -> Float[np.ndarray, " p"]:
        """Average of all factors at one point."""

    @abstractmethod
    def _series(self, factor: Factor) -> Float[np.ndarray, "p terms"]:
        """Hermite coefficients of the factors of one point."""

    def pair(self, k: int, l: int) -> Float[np.ndarray, "p p"]:
        """M_kl: derivative k at the row point, derivative l at the column point."""
        return self((k,), (l,))

    def forget(self) -> None:
        """Give back the memory of all averages; they are computed anew when asked for."""
        self._averages.clear()

    def _product(self, factor: Factor) -> Float[np.ndarray, "p nodes"]:
        value = np.ones_like(self._derivatives[0])
        for order in factor:
            value = value * self._derivatives[order]
        return value

    def _hermite(self, factor: Factor) -> Float[np.ndarray, "p known"]:
        if factor not in self._coefficients:
            self._coefficients[factor] = self._product(factor) @ hermite_projector(self._known)
        return self._coefficients[factor]

    def _at_nodes(self, std: Float[np.ndarray, " n"], terms: int) -> list[Float[np.ndarray, "n nodes"]]:
        nodes = gaussian_rule(terms).nodes
        return [np.asarray(d) for d in tower(self._function, std[:, None] * nodes, self._highest)]

    def _terms_needed(self, tolerance: float) -> int:
        """The least rung at which the tail of every single derivative is below the tolerance.

        By Parseval's identity the squares of the coefficients left out add up to what is missing from
        <f^2>, and each term of the tail carries a power of the largest correlation of different points.
        """
        largest = float(np.abs(np.where(self._same_point, 0.0, self._rho)).max(initial=0.0))
        std = np.quantile(self._std, [0.0, 0.5, 1.0])
        missing = np.inf
        for terms in _LADDER:
            weights = gaussian_rule(terms).weights
            tails = []
            for d in self._at_nodes(std, terms):
                square = d**2 @ weights
                caught = np.sum((d @ hermite_projector(terms)) ** 2, axis=1)
                tails.append(np.abs(square - caught) / np.where(square > 0, square, 1.0))
            tail = float(np.max(tails))
            missing = largest**terms * max(tail - _PARSEVAL_FLOOR, 0.0)
            if missing <= tolerance:
                return terms
        warnings.warn(
            f"preactivation variances reach {self._std.max() ** 2:.3g} and correlations {largest:.6g}, where "
            f"{_LADDER[-1]} Hermite terms leave out {missing:.1e} of an average of derivatives (asked for: "
            f"{tolerance:.1e}); standardise the inputs, lower C_b and C_W, or use a smoother activation.",
            stacklevel=4,
        )
        return _LADDER[-1]


class DerivativeMoments(NeuronMoments):
    """Averages of a smooth activation; parameters as above."""

    def __init__(
        self,
        function: Elementwise,
        K: Float[np.ndarray, "p p"],
        tolerance: float = 1e-10,
        highest: int = HIGHEST_DERIVATIVE,
    ):
        super().__init__(function, K, tolerance, highest, more=0)

    @property
    def _same_point(self):
        return np.eye(len(self._std), dtype=bool)

    def _own(self, factor):
        return self._product(factor) @ self._weights

    def _series(self, factor):
        return self._hermite(factor)


@jax.jit
def _mehler(f: Float[Array, "p terms"], g: Float[Array, "p terms"], rho: Float[Array, "p p"]) -> Array:
    """The series by Horner's rule, one row of points at a time so that it stays in the cache."""

    def row(level):
        f_a, rho_a = level

        def step(total, term):
            f_aj, g_j = term
            return total * rho_a + f_aj * g_j, None

        return lax.scan(step, jnp.zeros_like(rho_a), (f_a, g.T), reverse=True)[0]

    return lax.map(row, (f, rho))
