"""Activations whose Gaussian pair averages are elementary functions.

Each law is written for variances q_a, q_b and covariance k. The slope average follows from the
value by Price's theorem, <sigma'_a sigma'_b> = d<sigma_a sigma_b>/dk.
"""

import math
from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth.expectations.angles import angle
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
        value = bend * _outer(rows.std, columns.std) * (sine + complement * rho) + product * k
        return Averages(value, bend * complement + product)


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


class Erf(Elementary):
    """The error function."""

    def averages(self, q_a, q_b, k) -> Averages:
        # (1 + 2 q_a)(1 + 2 q_b) - 4 k^2, written so that nothing cancels for parallel inputs.
        root = jnp.sqrt(1 + 2 * q_a + 2 * q_b + 4 * (q_a * q_b - k**2))
        return Averages(2 / math.pi * jnp.arctan2(2 * k, root), 4 / math.pi / root)


class Gelu(Elementary):
    """z times the standard normal distribution function of z."""

    def averages(self, q_a, q_b, k) -> Averages:
        total = (1 + q_a) * (1 + q_b)
        determinant = 1 + q_a + q_b + (q_a * q_b - k**2)
        root = jnp.sqrt(determinant)
        both_positive = 0.25 + jnp.arctan2(k, root) / (2 * math.pi)
        value = k * both_positive + (q_a * q_b * root + k**2 / root) / (2 * math.pi * total)
        slope = both_positive + (k / root) * (1 + (2 - q_a * q_b + k**2 / determinant) / total) / (
            2 * math.pi
        )
        return Averages(value, slope)


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
