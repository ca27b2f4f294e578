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
import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from finitewidth.expectations.kinks import (
    HIGHEST_JUMP,
    RampPairs,
    Shape,
    ramp_coefficients,
    ramp_tails_at_one,
    shape_at_zero,
    value_and_slope,
)
from finitewidth.expectations.laws import Averages, PairLaw
from finitewidth.expectations.quadrature import gaussian_rule, hermite_projector

DEFAULT_TERMS = 64
_LADDER = (8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096)
_SEARCH_SIZES = (256, 1024, 4096)
_UNROLLED_TERMS = 32
_FIRST_TAIL_ORDER = HIGHEST_JUMP + 1


class Expansion(NamedTuple):
    """The share of each input in the series; orders run from the highest down, as Horner's rule wants."""

    constant: Float[Array, " n"]
    linear: Float[Array, " n"]
    higher: Float[Array, "n orders"]
    kink: Float[Array, "n orders"] | None  # the part of `higher` that comes from jumps at zero
    std: Float[Array, " n"]
    inverse_std: Float[Array, " n"]


class HermiteSeries(PairLaw):
    """Series law of an elementwise function, truncated to the orders below `terms`."""

    function: Callable[[Array], Array] = eqx.field(static=True)
    shape: Shape = eqx.field(static=True)
    terms: int = eqx.field(static=True)
    nodes: Float[Array | np.ndarray, " nodes"]
    weights: Float[Array | np.ndarray, " nodes"]
    projector: Float[Array | np.ndarray, "nodes terms"]
    ramps: Float[Array | np.ndarray, "ramps terms"]

    def moments(self, q):
        value, slope = value_and_slope(self.function, _std(q)[..., None] * self.nodes)
        return Averages(
            (value**2 @ self.weights).astype(q.dtype), (slope**2 @ self.weights).astype(q.dtype)
        )

    def features(self, q):
        std = _std(q)
        c = (self.function(std[:, None] * self.nodes) @ self.projector).astype(q.dtype)
        inverse = jnp.where(q > 0, 1 / jnp.where(q > 0, std, 1), 0)
        kink = None
        if self.shape.jumps:
            powers = std[:, None] ** np.arange(1, HIGHEST_JUMP + 1) * np.array(self.shape.jumps)
            kink = (powers @ self.ramps).astype(q.dtype)
            kink = self._higher(kink.at[:, :_FIRST_TAIL_ORDER].set(0))
        return Expansion(c[:, 0], c[:, 1], self._higher(c), kink, std, inverse)

    def _higher(self, c: Float[Array, "n terms"]) -> Float[Array, "n orders"]:
        return c[:, self.shape.first :: self.shape.stride][:, ::-1]

    def pair(self, rows, columns, k):
        normalise = rows.inverse_std[:, None] * columns.inverse_std[None, :]
        rho = k * normalise
        # Clipped in value only: the derivative at parallel inputs is the one-sided one.
        rho = rho + lax.stop_gradient(jnp.clip(rho, -1, 1) - rho)
        first, stride = self.shape.first, self.shape.stride
        series, d_series = _horner(rows, columns, rho if stride == 1 else rho**2)
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
        q = np.asarray(q, dtype=np.float64)
        q = np.quantile(q[q > 0], [0.0, 0.5, 1.0]) if (q > 0).any() else np.ones(1)
        return hermite_series(self.function, terms_needed(self.function, q, tolerance))


@functools.lru_cache(maxsize=512)
def hermite_series(function: Callable[[Array], Array], terms: int = DEFAULT_TERMS) -> HermiteSeries:
    """The series law of `function`, an elementwise function of an array."""
    rule = gaussian_rule(terms)
    return HermiteSeries(
        function,
        shape_at_zero(function),
        terms,
        rule.nodes,
        rule.weights,
        hermite_projector(terms),
        ramp_coefficients(terms),
    )


def terms_needed(
    function: Callable[[Array], Array], q: Float[np.ndarray, " n"], tolerance: float
) -> int:
    """The smallest number of terms that leaves out less than `tolerance` of <sigma^2> and <sigma'^2>.

    By Parseval's identity the squared coefficients add up to those two averages, which quadrature
    gives directly; for two different inputs the error is at most the geometric mean of theirs.
    Warns with the error reached when the longest series is not enough.
    """
    for size in _SEARCH_SIZES:
        missing = _missing_share(function, q, size)
        enough = [t for t in _LADDER if t <= size and missing[t] <= tolerance]
        if enough:
            return enough[0]
    warnings.warn(
        f"preactivation variances reach {q.max():.3g}, where {size} Hermite terms leave out "
        f"{missing[size]:.1e} of <sigma'^2> for parallel inputs (asked for: {tolerance:.1e}); "
        "standardise the inputs or lower C_b and C_W.",
        stacklevel=2,
    )
    return size


def _missing_share(function, q, size: int) -> dict[int, float]:
    """For every rung of the ladder up to `size`: the relative error at rho = 1, worst over q."""
    rule, shape = gaussian_rule(size), shape_at_zero(function)
    value, slope = (np.asarray(a) for a in value_and_slope(function, jnp.sqrt(q)[:, None] * rule.nodes))
    squares = (value @ hermite_projector(size)) ** 2
    partial_value = np.cumsum(squares, axis=1)
    partial_slope = np.cumsum(squares * np.arange(size), axis=1) / q[:, None]
    full_value, full_slope = value**2 @ rule.weights, slope**2 @ rule.weights
    missing = {}
    for terms in (t for t in _LADDER if t <= size):
        in_value = full_value - partial_value[:, terms - 1]
        in_slope = full_slope - partial_slope[:, terms - 1]
        if shape.jumps:
            powers = np.sqrt(q)[:, None] ** np.arange(1, HIGHEST_JUMP + 1) * np.array(shape.jumps)
            tail_value, tail_slope = ramp_tails_at_one(terms)
            in_value = in_value - np.einsum("am,mn,an->a", powers, tail_value, powers)
            in_slope = in_slope - np.einsum("am,mn,an->a", powers, tail_slope, powers) / q
        missing[terms] = float(
            max(np.abs(in_value / full_value).max(), np.abs(in_slope / full_slope).max())
        )
    return missing


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
    low = ramp_coefficients(_FIRST_TAIL_ORDER)
    value, slope = jnp.zeros_like(rho), jnp.zeros_like(rho)
    present = [m for m, jump in enumerate(jumps, 1) if jump]
    for m, n in itertools.product(present, present):
        if (m - n) % 2:
            continue
        head = (low[m - 1] * low[n - 1])[::-1]
        size = (jumps[m - 1] * jumps[n - 1]) * row_std[:, None] ** m * column_std[None, :] ** n
        value = value + size * (pairs(m, n) - jnp.polyval(head, rho))
        slope = slope + size * (pairs(m - 1, n - 1) - jnp.polyval(np.polyder(head), rho))
    return Averages(value, slope)


def _horner(
    rows: Expansion, columns: Expansion, x: Float[Array, "rows columns"]
) -> tuple[Float[Array, "rows columns"], Float[Array, "rows columns"]]:
    """The higher orders of the series, less their kink parts, as a polynomial in x; its derivative."""
    orders = rows.higher.shape[1]
    chunks = max(1, -(-orders // _UNROLLED_TERMS))
    padding = chunks * _UNROLLED_TERMS - orders if chunks > 1 else 0

    def by_order(a: Float[Array, "n orders"]) -> Float[Array, "chunks size n"]:
        return jnp.pad(a, ((0, 0), (padding, 0))).T.reshape(chunks, -1, a.shape[0])

    def advance(carry, chunk):
        value, derivative = carry
        for a, b, *kinks in zip(*chunk, strict=True):
            derivative = derivative * x + value
            value = value * x + a[:, None] * b[None, :]
            if kinks:
                value = value - kinks[0][:, None] * kinks[1][None, :]
        return (value, derivative), None

    coefficients = [rows.higher, columns.higher]
    if rows.kink is not None:
        coefficients += [rows.kink, columns.kink]
    stacks = tuple(by_order(a) for a in coefficients)
    start = (jnp.zeros_like(x), jnp.zeros_like(x))
    if chunks == 1:
        return advance(start, tuple(s[0] for s in stacks))[0]
    return lax.scan(advance, start, stacks)[0]
