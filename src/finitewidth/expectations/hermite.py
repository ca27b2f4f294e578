r"""Pair averages of any activation from its Hermite expansion.

With $\sigma(\sqrt q\,u)=\sum_k c_k(q)\,h_k(u)$ in normalised Hermite polynomials,

$$\langle\sigma_a\sigma_b\rangle=\sum_k c_k(q_a)\,c_k(q_b)\,\rho^k,\qquad
\langle\sigma'_a\sigma'_b\rangle=\frac{1}{\sqrt{q_aq_b}}\,\frac{d}{d\rho}
\sum_k c_k(q_a)\,c_k(q_b)\,\rho^k .$$

A kink at zero makes the coefficients fall off as a power of k only; `kinks` sums those tails
exactly and what is left converges fast.
"""

import functools
import itertools
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Complex, Float, Int

from finitewidth._base.arrays import Elementwise
from finitewidth.expectations.kinked.kinks import (
    HIGHEST_JUMP,
    RampPairs,
    Shape,
    ramp_coefficients,
    shape_at_zero,
    value_and_slope,
)
from finitewidth.expectations.laws import Averages, PairLaw
from finitewidth.expectations.quadrature import gaussian_rule, hermite_projector
from finitewidth.expectations.truncation import terms_needed, terms_within

DEFAULT_TERMS = 64
_UNROLLED_ORDERS = 32
_FIRST_TAIL_ORDER = HIGHEST_JUMP + 1


class Expansion(NamedTuple):
    """The share of each input in the series; orders run from the highest down, as Horner's rule wants."""

    constant: Float[Array, " n"]
    linear: Float[Array, " n"]
    higher: Float[Array, "n orders"]
    kink: Float[Array, "n orders"] | None  # the part of `higher` that comes from jumps at zero
    std: Float[Array, " n"]
    inverse_std: Float[Array, " n"]


class Projection(NamedTuple):
    """The coefficients of orders 0, 1 and the higher ones in use are `f(std * nodes) @ matrix`."""

    nodes: Float[Array | np.ndarray, " nodes"]
    matrix: Float[Array | np.ndarray, "nodes orders"]


class HermiteSeries(PairLaw):
    """Series law of an elementwise function, truncated to the orders below `terms`."""

    function: Elementwise = eqx.field(static=True)
    shape: Shape = eqx.field(static=True)
    terms: int = eqx.field(static=True)
    nodes: Float[Array | np.ndarray, " nodes"]  # the positive ones only where parity gives the rest
    weights: Float[Array | np.ndarray, " nodes"]
    projection: Projection
    ramps: Float[Array | np.ndarray, "ramps orders"]

    def moments(self, q):
        z = _std(q)[..., None] * self.nodes
        value, slope = value_and_slope(self.function, z)
        squares = value**2, slope**2
        if self.shape.stride == 2:
            mirrored = self._mirrored(z, value, slope)
            squares = (here + there**2 for here, there in zip(squares, mirrored, strict=True))
        return Averages(*((square @ self.weights).astype(q.dtype) for square in squares))

    def _mirrored(self, z: Float[Array, "*s"], value: Float[Array, "*s"], slope: Float[Array, "*s"]):
        """Value and slope at -z: odd up to a constant, or even up to a linear part."""
        if self.shape.first == 3:
            return 2 * self.function(jnp.zeros_like(z[..., :1])) - value, slope
        unit = jnp.ones_like(z[..., :1])
        twice = self.function(unit) - self.function(-unit)
        return value - twice * z, twice - slope

    def features(self, q):
        std = _std(q)
        nodes, matrix = self.projection
        c = (self.function(std[:, None] * nodes) @ matrix).astype(q.dtype)
        inverse = jnp.where(q > 0, 1 / jnp.where(q > 0, std, 1), 0)
        kink = None
        if self.shape.jumps:
            powers = self.shape.jump_sizes(std)
            kink = (powers @ self.ramps).astype(q.dtype)
        return Expansion(c[:, 0], c[:, 1], c[:, 2:], kink, std, inverse)

    def pair(self, rows, columns, k):
        normalise = rows.inverse_std[:, None] * columns.inverse_std[None, :]
        rho = k * normalise
        # Clipped in value only: the derivative at parallel inputs is the one-sided one.
        rho = rho + lax.stop_gradient(jnp.clip(rho, -1, 1) - rho)
        first, stride = self.shape.first, self.shape.stride
        series, d_series = _higher_orders(rows, columns, rho if stride == 1 else rho**2)
        if stride == 2:
            d_series = 2 * rho * d_series
        linear = rows.linear[:, None] * columns.linear[None, :]
        value = rows.constant[:, None] * columns.constant[None, :] + linear * rho + rho**first * series
        slope = linear + rho ** (first - 1) * (first * series + rho * d_series)
        if self.shape.jumps:
            tail = kink_tail(self.shape.jumps, rows.std, columns.std, rho)
            value, slope = value + tail.value, slope + tail.slope
        return Averages(value, slope * normalise)

    def resolve(self, q, tolerance):
        shape, q = self._met(q)
        return _series(self.function, shape, terms_needed(self.function, shape, q, tolerance))

    def resolve_within(
        self, q: Float[np.ndarray, "*n"], tolerance: float, most: int
    ) -> tuple["HermiteSeries", float]:
        """The same law with at most so many terms, and the share of the averages that they leave out."""
        shape, q = self._met(q)
        terms, left_out = terms_within(self.function, shape, q, tolerance, most)
        return _series(self.function, shape, terms), left_out

    def _met(self, q: Float[Array | np.ndarray, "*n"]) -> tuple[Shape, Float[np.ndarray, " few"]]:
        """Few variances that stand for those that are met, and the shape of the function seen from there."""
        q = np.asarray(q, dtype=np.float64)
        q = np.quantile(q[q > 0], [0.0, 0.5, 1.0]) if (q > 0).any() else np.ones(1)
        return shape_at_zero(self.function).usable(float(q.max())), q


def hermite_series(function: Elementwise, terms: int = DEFAULT_TERMS) -> HermiteSeries:
    """The series law of `function`, an elementwise function of an array."""
    return _series(function, shape_at_zero(function), terms)


@functools.lru_cache(maxsize=512)
def _series(function: Elementwise, shape: Shape, terms: int) -> HermiteSeries:
    rule = gaussian_rule(terms)
    used = rule.nodes > (0 if shape.stride == 2 else -np.inf)
    ramps = ramp_coefficients(terms)[: len(shape.jumps)]
    ramps[:, :_FIRST_TAIL_ORDER] = 0
    return HermiteSeries(
        function,
        shape,
        terms,
        rule.nodes[used],
        rule.weights[used],
        _projection(shape.first, shape.stride, terms),
        ramps[:, _orders(shape.first, shape.stride, terms)[2:]],
    )


def _orders(first: int, stride: int, terms: int) -> Int[np.ndarray, " orders"]:
    """Zero, one, then the higher orders in use from the highest down."""
    return np.concatenate([[0, 1], np.arange(first, terms, stride)[::-1]])


@functools.cache
def _projection(first: int, stride: int, terms: int) -> Projection:
    """From function values to Hermite coefficients, looking at one side only where parity allows.

    A function that is odd up to a constant is known from f(0) and its values at u > 0; one that is
    even up to a linear part from its values at u > 0 and one at u < 0.
    """
    nodes, orders = gaussian_rule(terms).nodes, _orders(first, stride, terms)
    matrix = hermite_projector(terms)[:, orders]
    if stride == 1:
        return Projection(nodes, matrix)
    right, half = nodes[nodes > 0], 2 * matrix[nodes > 0]
    if first == 3:
        half[:, 0] = 0
        at_zero = -half.sum(axis=0)
        at_zero[0] = 1
        return Projection(np.append(right, 0.0), np.vstack([half, at_zero]))
    # f(-u) = f(u) - 2 a u, and the slope a of the linear part is read off at one pair of nodes.
    half[:, 1] = 0
    linear_share = -right @ half
    linear_share[1] = 1
    one = np.argmin(np.abs(right - 1))
    half[one] += linear_share / (2 * right[one])
    at_left = -linear_share / (2 * right[one])
    return Projection(np.append(right, -right[one]), np.vstack([half, at_left]))


def _std(q: Float[Array, "*n"]) -> Float[Array, "*n"]:
    return jnp.where(q > 0, jnp.sqrt(jnp.where(q > 0, q, 1)), 0)


def kink_tail(
    jumps: tuple[float, ...],
    row_std: Float[Array, " rows"],
    column_std: Float[Array, " columns"],
    rho: Float[Array, "rows columns"],
) -> Averages:
    """What jumps at zero add to the series and to its derivative in rho, from order six up.

    From there on ramps of different parity share no order, so only equal parities are paired.
    """
    pairs = RampPairs(rho)
    low = ramp_coefficients(_FIRST_TAIL_ORDER).astype(rho.dtype)
    value, slope = jnp.zeros_like(rho), jnp.zeros_like(rho)
    present = [m for m, jump in enumerate(jumps, 1) if jump]
    for m, n in itertools.product(present, present):
        if (m - n) % 2:
            continue
        head = (low[m - 1] * low[n - 1])[::-1]
        size = (jumps[m - 1] * jumps[n - 1]) * row_std[:, None] ** m * column_std[None, :] ** n
        value = value + size * (pairs(m, n) - jnp.polyval(head, rho))
        slope = slope + size * (pairs(m - 1, n - 1) - jnp.polyval(np.polyder(head).astype(rho.dtype), rho))
    return Averages(value, slope)


Coefficients = tuple[Float[Array, "_ orders"], ...]  # of the rows and columns, then of their kinks


def _higher_orders(
    rows: Expansion, columns: Expansion, x: Float[Array, "rows columns"]
) -> tuple[Float[Array, "rows columns"], Float[Array, "rows columns"]]:
    """The higher orders of the series, less their kink parts, as a polynomial in x; its derivative."""
    coefficients = (rows.higher, columns.higher)
    if rows.kink is not None and columns.kink is not None:
        coefficients += (rows.kink, columns.kink)
    total = _horner(coefficients, x)
    return lax.real(total), lax.imag(total)


@jax.custom_jvp
def _horner(coefficients: Coefficients, x: Float[Array, "rows columns"]) -> Complex[Array, "rows columns"]:
    """Polynomial (real part) and derivative (imaginary part).

    Horner's rule two orders at a time, which halves the chain of dependent operations. Value and
    derivative travel as one complex array, so that XLA computes them in one loop.
    """
    orders = coefficients[0].shape[1]
    chunks = -(-orders // _UNROLLED_ORDERS)
    size = 2 * -(-orders // (2 * chunks))
    square, twice = x * x, 2 * x

    def by_order(a: Float[Array, "n orders"]) -> Float[Array, "chunks size n"]:
        return jnp.pad(a, ((0, 0), (chunks * size - orders, 0))).T.reshape(chunks, size, -1)

    def advance(carry, chunk):
        value, derivative = lax.real(carry), lax.imag(carry)
        for i in range(0, size, 2):
            upper, lower = (_products(tuple(part[i + j] for part in chunk)) for j in (0, 1))
            derivative = derivative * square + (value * twice + upper)
            value = value * square + (upper * x + lower)
        return lax.complex(value, derivative), None

    start = lax.complex(jnp.zeros_like(x), jnp.zeros_like(x))
    return lax.scan(advance, start, tuple(by_order(a) for a in coefficients))[0]


@_horner.defjvp
def _horner_jvp(primals, tangents):
    return jax.jvp(_horner_by_single_orders, primals, tangents)


def _horner_by_single_orders(coefficients: Coefficients, x: Float[Array, "rows columns"]):
    """The same polynomial; a short loop, whose derivatives compile fast."""

    def advance(carry, order):
        value, derivative = carry
        return (value * x + _products(order), derivative * x + value), None

    start = (jnp.zeros_like(x), jnp.zeros_like(x))
    (value, derivative), _ = lax.scan(advance, start, tuple(a.T for a in coefficients))
    return lax.complex(value, derivative)


def _products(order: tuple[Float[Array, " _"], ...]) -> Float[Array, "rows columns"]:
    """Products of the row inputs' and the column inputs' coefficients, less those of their kinks."""
    rows, columns, *kinks = order
    product = rows[:, None] * columns[None, :]
    if kinks:
        product = product - kinks[0][:, None] * kinks[1][None, :]
    return product
