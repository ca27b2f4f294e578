"""Activations whose Gaussian pair averages are elementary functions.

Each law is written for variances q_a, q_b and covariance k. The slope average follows from the
value by Price's theorem, <sigma'_a sigma'_b> = d<sigma_a sigma_b>/dk.
"""

import math
from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

from finitewidth.expectations.angles import angle, arcsine, complement
from finitewidth.expectations.laws import Averages, ExactLaw


class Scale(NamedTuple):
    """Standard deviation of a preactivation, and its inverse (zero for a dead input)."""

    std: Float[Array, " n"]
    inverse: Float[Array, " n"]


def _scale(q: Float[Array, " n"]) -> Scale:
    alive = q > 0
    std = jnp.sqrt(jnp.where(alive, q, 1))
    return Scale(jnp.where(alive, std, 0), jnp.where(alive, 1 / std, 0))


def _outer(rows: Float[Array, " rows"], columns: Float[Array, " columns"]):
    return rows[:, None] * columns[None, :]


class PiecewiseLinear(ExactLaw):
    """Slope `right` for z > 0 and `left` for z < 0: linear, ReLU, leaky ReLU, absolute value."""

    left: float = eqx.field(static=True)
    right: float = eqx.field(static=True)

    def moments(self, q):
        mean_square_slope = (self.left**2 + self.right**2) / 2
        return Averages(mean_square_slope * q, jnp.full_like(q, mean_square_slope))

    def features(self, q):
        return _scale(q)

    def pair(self, rows, columns, k):
        product = self.left * self.right
        bend = (self.right - self.left) ** 2 / (2 * math.pi)
        if bend == 0:
            return Averages(product * k, jnp.full_like(k, product))
        rho = k * _outer(rows.inverse, columns.inverse)
        complement, sine = angle(rho)
        value = bend * _outer(rows.std, columns.std) * (sine + complement * rho)
        if product == 0:
            return Averages(value, bend * complement)
        return Averages(value + product * k, bend * complement + product)


class Step(ExactLaw):
    """One for z > 0, zero otherwise.

    The slope is the derivative that back-propagation sees, zero almost everywhere; the point mass
    at the jump would make the NTK infinite on its diagonal.
    """

    def moments(self, q):
        return Averages(jnp.full_like(q, 0.5), jnp.zeros_like(q))

    def features(self, q):
        return _scale(q)

    def pair(self, rows, columns, k):
        complement, _ = angle(k * _outer(rows.inverse, columns.inverse))
        return Averages(complement / (2 * math.pi), jnp.zeros_like(k))


class Elementary(ExactLaw):
    """A law that is one function of both variances and the covariance, for one input as for two."""

    @abstractmethod
    def averages(self, q_a, q_b, k) -> Averages:
        """Averages for variances q_a and q_b and covariance k."""

    def moments(self, q):
        return self.averages(q, q, q)

    def features(self, q):
        return q

    def pair(self, rows, columns, k):
        return self.averages(rows[:, None], columns[None, :], k)


class Widened(NamedTuple):
    r"""Variance of a preactivation, and $(1+cq)^{-1/2}$: adding a Gaussian to it widens its variance."""

    variance: Float[Array, "*n"]
    inverse: Float[Array, "*n"]


class Pair(NamedTuple):
    r"""Correlation t of two widened preactivations, $1-t^2$, one over its root, and the two inverses."""

    t: Float[Array, "*s"]
    square: Float[Array, "*s"]
    inverse_root: Float[Array, "*s"]
    inverse: Float[Array, "*s"]


class Probit(ExactLaw):
    """A law made of normal distribution functions, which average over one more Gaussian of variance 1/c."""

    @property
    @abstractmethod
    def widening(self) -> float:
        """The constant c."""

    @abstractmethod
    def averages(self, a: Widened, b: Widened, k: Float[Array, "*s"]) -> Averages:
        """Averages for two inputs with covariance k."""

    def moments(self, q):
        own = self.features(q)
        return self.averages(own, own, q)

    def features(self, q):
        return Widened(q, 1 / jnp.sqrt(1 + self.widening * q))

    def pair(self, rows, columns, k):
        row = Widened(*(a[:, None] for a in rows))
        column = Widened(*(a[None, :] for a in columns))
        return self.averages(row, column, k)

    def widened(self, a: Widened, b: Widened, k: Float[Array, "*s"]) -> Pair:
        """What both averages are made of."""
        c, inverse, scale = self.widening, a.inverse * b.inverse, a.variance * b.variance
        # (1 + c q_a)(1 + c q_b) - c^2 k^2, written so that nothing cancels for parallel inputs.
        square = (1 + c * a.variance + c * b.variance + c**2 * (scale - k**2)) * inverse**2
        return Pair(c * k * inverse, square, lax.rsqrt(square), inverse)


class Erf(Probit):
    """The error function."""

    @property
    def widening(self) -> float:
        return 2.0

    def averages(self, a, b, k) -> Averages:
        t, square, inverse_root, inverse = self.widened(a, b, k)
        return Averages(2 / math.pi * arcsine(t, square), 4 / math.pi * inverse * inverse_root)


class Gelu(Probit):
    """z times the standard normal distribution function of z."""

    @property
    def widening(self) -> float:
        return 1.0

    def averages(self, a, b, k) -> Averages:
        t, square, inverse_root, inverse = self.widened(a, b, k)
        root, ratio, scale = square * inverse_root, t * inverse_root, a.variance * b.variance
        both_positive = complement(t, root)
        value = k * both_positive + inverse * (scale * root + t * ratio)
        slope = both_positive + ratio * (1 + inverse**2 * (2 - scale + ratio**2))
        return Averages(value / (2 * math.pi), slope / (2 * math.pi))


class Sinusoid(Elementary):
    """sin z (`odd`) or cos z."""

    odd: bool = eqx.field(static=True)

    def averages(self, q_a, q_b, k) -> Averages:
        middle = (q_a + q_b) / 2
        # exp(-middle) sinh(k) and exp(-middle) cosh(k) without overflow; |k| <= middle.
        small = jnp.abs(k) < 1
        near = jnp.exp(-middle) * jnp.sinh(jnp.where(small, k, 0))
        grow, decay = jnp.exp(k - middle), jnp.exp(-k - middle)
        sine_pair = jnp.where(small, near, (grow - decay) / 2)
        cosine_pair = (grow + decay) / 2
        return Averages(sine_pair, cosine_pair) if self.odd else Averages(cosine_pair, sine_pair)


class Monomial(ExactLaw):
    """z to a positive integer power, whose Hermite expansion ends after power + 1 terms."""

    power: int = eqx.field(static=True)

    def moments(self, q):
        p = self.power
        return Averages(_odd_factorial(p) * q**p, p**2 * _odd_factorial(p - 1) * q ** (p - 1))

    def features(self, q):
        return q

    def pair(self, rows, columns, k):
        # sum over j of a_j^2 k^j (q_a q_b)^((p - j)/2); p - j is even, so no root is taken.
        p, both = self.power, rows[:, None] * columns[None, :]
        value, slope = jnp.zeros_like(k), jnp.zeros_like(k)
        for j in range(p % 2, p + 1, 2):
            m = (p - j) // 2
            weight = (math.factorial(p) / (2**m * math.factorial(m))) ** 2 / math.factorial(j)
            rest = both**m
            value = value + weight * k**j * rest
            if j:
                slope = slope + weight * j * k ** (j - 1) * rest
        return Averages(value, slope)


def _odd_factorial(p: int) -> int:
    """E[u^(2p)] = (2p - 1)!! for u ~ N(0, 1)."""
    return math.prod(range(1, 2 * p, 2))
