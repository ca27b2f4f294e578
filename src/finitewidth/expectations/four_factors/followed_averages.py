r"""Averages over one neuron whose covariance JAX follows, with derivatives in it.

Averages of two factors are Mehler's series with a fixed number of terms. Averages of four factors are sums
over a grid, and their derivatives are averages again (Price): with the covariance of four slots,

$$d\,\langle f\rangle=\tfrac12\sum_{pq}dK_{pq}\,\langle\partial_p\partial_qf\rangle,$$

so that no root of a covariance is differentiated, and singular ones do no harm. What the grid of known
covariances finds out beforehand, how fine it must be, is looked up here by the spread of every axis; where
that is beyond the table, or the grid too large, the averages are NaN.
"""

import functools
import itertools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from finitewidth._base.arrays import Elementwise
from finitewidth._base.derivatives import value_and_derivatives
from finitewidth.expectations.four_factors.axis_rules import (
    MOST_NODES,
    SIGNATURES,
    Signature,
    coarsest_step,
    gaussian_radius,
)
from finitewidth.expectations.four_factors.four_point import FourPoint, places
from finitewidth.expectations.quadrature import gaussian_rule, hermite_projector

Pair = Float[Array, "n n"]
# Signatures of any order: derivatives raise them by two.
Signatures = tuple[Signature, ...]

_TERMS = 256
_SPREADS = 0.1 * 1.5 ** np.arange(14)
_SLAB = 1024
# Products of higher derivatives take finer grids than the averages that they belong to.
_FINER = 1e-2
# Axes that reach no further than this share of the widest hold rounding.
_EMPTY = 1e-7


def followed_pairs(function: Elementwise, K: Pair, highest: int) -> Float[Array, "orders orders n n"]:
    r"""$\langle\sigma^{(k)}_a\sigma^{(l)}_b\rangle$ for all k and l up to the highest."""
    std = jnp.sqrt(jnp.diag(K))
    rho = K / (std[:, None] * std)
    rule = gaussian_rule(_TERMS)
    derivatives = jnp.stack(value_and_derivatives(function, std[:, None] * rule.nodes, highest))
    coefficients = derivatives @ hermite_projector(_TERMS)
    powers = rho[..., None] ** np.arange(_TERMS)
    series = jnp.einsum("kaj,lbj,abj->klab", coefficients, coefficients, powers)
    own = jnp.einsum("kan,lan,n->kla", derivatives, derivatives, rule.weights)
    return jnp.where(jnp.eye(len(K), dtype=bool), own[..., None], series)


def followed_four_point(function: Elementwise, K: Pair, tolerance: float) -> FourPoint:
    """The averages of all `SIGNATURES` for all quadruples of inputs."""
    averages = _averages(function, tolerance, SIGNATURES, K)
    return dict(zip(SIGNATURES, averages, strict=True))


@functools.partial(jax.custom_jvp, nondiff_argnums=(0, 1, 2))
def _averages(
    function: Elementwise, tolerance: float, signatures: Signatures, K: Pair
) -> Float[Array, "signatures n n n n"]:
    n, highest = len(K), max(map(max, signatures))
    quadruples = np.array(list(itertools.combinations_with_replacement(range(n), 4)))
    steps = jnp.asarray([coarsest_step(function, float(s), tolerance / 8) for s in _SPREADS])
    covariances = K[quadruples[:, :, None], quadruples[:, None, :]]
    one = functools.partial(_four_slots, function, highest, gaussian_radius(tolerance), steps)
    found = lax.map(one, covariances).reshape(-1, *(highest + 1,) * 4)
    keys, labels = [tuple(q) for q in quadruples.tolist()], np.arange(n)
    return jnp.stack([found[places(keys, labels, s)].reshape((n,) * 4) for s in signatures])


@_averages.defjvp
def _averages_jvp(function, tolerance, signatures, primals, tangents):
    (K,), (dK,) = primals, tangents
    raised = {_sorted(_raised(s, p, q)) for s in signatures for p, q in _SLOTS}
    every = tuple(sorted({*raised, *signatures}))
    known = dict(zip(every, _averages(function, _FINER * tolerance, every, K), strict=True))
    moved = []
    for signature in signatures:
        total = jnp.zeros((len(K),) * 4, K.dtype)
        for p, q in _SLOTS:
            orders = np.array(_raised(signature, p, q))
            falling = np.argsort(-orders, kind="stable")
            average = known[_sorted(orders.tolist())].transpose(np.argsort(falling))
            by = (jnp.diag(dK) / 2, "abcd"[p]) if p == q else (dK, "abcd"[p] + "abcd"[q])
            total = total + jnp.einsum(f"abcd,{by[1]}->abcd", average, by[0])
        moved.append(total)
    return jnp.stack([known[signature] for signature in signatures]), jnp.stack(moved)


_SLOTS = list(itertools.combinations_with_replacement(range(4), 2))


def _raised(signature: Signature, p: int, q: int) -> Signature:
    """One more derivative in the slots p and q."""
    a, b, c, d = (order + (slot == p) + (slot == q) for slot, order in enumerate(signature))
    return a, b, c, d


def _sorted(signature: Sequence[int]) -> Signature:
    a, b, c, d = sorted(signature, reverse=True)
    return a, b, c, d


def _four_slots(
    function: Elementwise,
    highest: int,
    radius: float,
    steps: Float[Array, " spreads"],
    covariance: Float[Array, "4 4"],
) -> Float[Array, "orders_of_two orders_of_two"]:
    """Averages of four factors with derivatives up to the highest, two and two factors together."""
    eigenvalues, vectors = jnp.linalg.eigh(covariance)
    root = vectors * jnp.sqrt(jnp.maximum(eigenvalues, 0))
    spread = jnp.max(jnp.abs(root), axis=0)
    step = steps[jnp.searchsorted(jnp.asarray(_SPREADS), spread)]
    fine = jnp.isfinite(step)
    # Equal slots leave axes on which nothing happens: one node with all of the weight.
    empty = spread <= _EMPTY * jnp.max(spread)
    step = jnp.where(empty, math.sqrt(2 * math.pi), jnp.where(fine, step, 1.0))
    reach = jnp.where(empty, 0, jnp.floor(radius / step).astype(int))
    axis = 2 * reach + 1
    total = jnp.prod(axis)
    held = jnp.all(fine) & (jnp.prod(axis.astype(float)) <= MOST_NODES)
    strides = jnp.concatenate([jnp.ones(1, int), jnp.cumprod(axis)[:-1]])
    orders = highest + 1

    def add_slab(i: Int[Array, ""], sums: Array) -> Array:
        index = i * _SLAB + jnp.arange(_SLAB)
        u = step * ((index[:, None] // strides) % axis - reach)
        square = jnp.sum(u**2, axis=1)
        density = jnp.exp(-square / 2) * jnp.prod(step / math.sqrt(2 * math.pi))
        weights = jnp.where((index < total) & (square <= radius**2), density, 0.0)
        s = jnp.stack(value_and_derivatives(function, root @ u.T, highest))
        pairs = lambda a, b: (s[:, None, a] * s[None, :, b]).reshape(-1, _SLAB)
        return sums + (pairs(0, 1) * weights) @ pairs(2, 3).T

    slabs = jnp.where(held, -(-total // _SLAB), 0)
    sums = lax.fori_loop(0, slabs, add_slab, jnp.zeros((orders**2, orders**2)))
    return jnp.where(held, sums, jnp.nan)
