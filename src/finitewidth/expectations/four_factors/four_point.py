r"""Averages of four factors, $\langle\sigma^{(i)}_a\sigma^{(j)}_b\sigma^{(k)}_c\sigma^{(l)}_d\rangle_K$.

A set of m different inputs is a Gaussian vector. Up to three inputs are integrated over as $z=Lu$ with m
independent components. Four inputs are first split into what they share and what each has to itself,
$K=S+\mathrm{diag}(v)$: the second is averaged over one input at a time, and only the few axes of S are
integrated over jointly.
"""

import functools
import itertools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from finitewidth._base.arrays import Elementwise, Matrix, Quadruple
from finitewidth._base.tracing import outside_tracing
from finitewidth.expectations.four_factors.axis_rules import (
    SIGNATURES,
    Grid,
    Signature,
    axis_rule,
    gaussian_radius,
    product_grid,
    stacked,
)
from finitewidth.expectations.four_factors.own_variance import own_variances
from finitewidth.expectations.four_factors.smoothed_activation import ActivationTable, interpolated

# The products of a slab stay in the cache.
_SLAB = 1024
_SLABS_AT_ONCE = (4, 64)
_SETS_AT_ONCE = 64

FourPoint = dict[Signature, Quadruple]


def four_point_averages(function: Elementwise, K: Matrix, tolerance: float) -> FourPoint:
    """The averages of all `SIGNATURES` for all quadruples of inputs.

    Parameters
    ----------
    function
        A smooth elementwise function.
    K
        Covariance of the preactivations; it may be singular.
    tolerance
        Error relative to the average of the absolute value of the integrand.
    """
    K = np.asarray(K)
    n = len(K)
    table = {}
    for m in range(1, min(n, 3) + 1):
        sets = np.array(list(itertools.combinations(range(n), m)))
        patterns = patterns_of(m)
        for labels, root in zip(sets, _roots(K[sets[:, :, None], sets[:, None, :]]), strict=True):
            grid = _grid(function, root, tolerance)
            averages = set_averages(function, root, grid, patterns)
            quadruples = labels[np.array(patterns)].tolist()
            table.update(zip(map(tuple, quadruples), averages, strict=True))
    sets = np.array(list(itertools.combinations(range(n), 4)), dtype=int).reshape(-1, 4)
    table.update(zip(map(tuple, sets.tolist()), _smoothed(function, K, sets, tolerance), strict=True))
    return {signature: spread_out(table, np.arange(n), signature) for signature in SIGNATURES}


def _grid(function: Elementwise, root: Float[np.ndarray, "m m"], tolerance: float) -> Grid:
    """As fine along each axis of z = root u as the activation asks for."""
    # At most eight rules, four of them along axes, share the error.
    rules = [axis_rule(function, float(spread), tolerance / 8) for spread in np.abs(root).max(axis=0)]
    return product_grid(rules, tolerance, half=_has_parity(function))


@functools.lru_cache(maxsize=512)
def _has_parity(function: Elementwise) -> bool:
    """Whether the function is odd or even: then all `SIGNATURES` are the same at z and at -z."""
    with outside_tracing():
        z = jnp.linspace(0.0, 8.0, 161)
        plus, minus = np.asarray(function(z)), np.asarray(function(-z))
    scale = np.abs(plus).max()
    return bool(min(np.abs(plus + minus).max(), np.abs(plus - minus).max()) <= 1e-14 * scale)


def _roots(K: Float[np.ndarray, "sets m m"]) -> Float[np.ndarray, "sets m m"]:
    """Matrices L with K = L L^T, columns along the principal axes, the widest first."""
    eigenvalues, vectors = np.linalg.eigh(K)
    return (vectors * np.sqrt(np.clip(eigenvalues, 0, None))[:, None, :])[:, :, ::-1]


def patterns_of(m: int) -> list[tuple[int, ...]]:
    """Which of m inputs each of four factors belongs to, sorted, every input being there."""
    return [p for p in itertools.combinations_with_replacement(range(m), 4) if len(set(p)) == m]


def set_averages(
    function: Elementwise,
    root: Float[np.ndarray, "m rank"],
    grid: Grid,
    patterns: list[tuple[int, ...]],
) -> Float[np.ndarray, "patterns 4 4 4 4"]:
    """All averages with derivatives up to the third, over one set of inputs with z = root u."""
    total = np.zeros((len(patterns), 16, 16))
    for part in _slabs(grid):
        total = total + np.asarray(_partial_averages(function, tuple(patterns), root, *part))
    return total.reshape(len(patterns), 4, 4, 4, 4)


@functools.partial(jax.jit, static_argnames=("function", "patterns"))
def _partial_averages(
    function: Elementwise,
    patterns: tuple[tuple[int, ...], ...],
    root: Float[Array, "m rank"],
    nodes: Float[Array, "slabs slab rank"],
    weights: Float[Array, "slabs slab"],
    used: Int[Array, ""],
) -> Float[Array, "patterns 16 16"]:
    def add_slab(i, total):
        s = stacked(function, root @ nodes[i].T)
        parts = [_two_by_two(s[:, p], weights[i]) for p in np.array(patterns)]
        return total + jnp.stack(parts)

    return lax.fori_loop(0, used, add_slab, jnp.zeros((len(patterns), 16, 16)))


def _smoothed(
    function: Elementwise,
    K: Float[np.ndarray, "n n"],
    sets: Int[np.ndarray, "sets 4"],
    tolerance: float,
) -> Float[np.ndarray, "sets 4 4 4 4"]:
    """The same for sets of four different inputs."""
    averages = np.zeros((len(sets), 4, 4, 4, 4))
    if not len(sets):
        return averages
    # |root u| and the noise around it reach at most so far.
    reach = np.sqrt(2 * np.diag(K).max()) * gaussian_radius(tolerance / 8)
    table = ActivationTable.of(function, float(reach), tolerance)
    covariance = K[sets[:, :, None], sets[:, None, :]]
    own = own_variances(covariance)
    own = np.where(own < table.least_variance, 0.0, own)
    roots = _roots(covariance - own[:, :, None] * np.eye(4))
    for start in range(0, len(sets), _SETS_AT_ONCE):
        part = slice(start, start + _SETS_AT_ONCE)
        for i, (root, smooth) in enumerate(zip(roots[part], table.smoothed(own[part]), strict=True), start):
            total = np.zeros((16, 16))
            for slabs in _slabs(_grid(function, root, tolerance)):
                total = total + np.asarray(_smoothed_part(smooth, table.start, table.spacing, root, *slabs))
            averages[i] = total.reshape(4, 4, 4, 4)
    return averages


@jax.jit
def _smoothed_part(
    tables: Float[Array, "4 entries orders"],
    start: Float[Array, ""],
    spacing: Float[Array, ""],
    root: Float[Array, "4 4"],
    nodes: Float[Array, "slabs slab 4"],
    weights: Float[Array, "slabs slab"],
    used: Int[Array, ""],
) -> Float[Array, "16 16"]:
    def add_slab(i, total):
        place = (root @ nodes[i].T - start) / spacing
        s = jnp.stack([interpolated(tables[a], place[a], spacing) for a in range(4)], axis=1)
        # Or else the compiler would interpolate anew for every product.
        return total + _two_by_two(lax.optimization_barrier(s), weights[i])

    return lax.fori_loop(0, used, add_slab, jnp.zeros((16, 16)))


def _two_by_two(s: Float[Array, "4 4 nodes"], weight: Float[Array, " nodes"]) -> Float[Array, "16 16"]:
    """Orders of four factors, two and two of them: then the sum over nodes is one matrix product."""
    first = (s[:, None, 0] * s[None, :, 1]).reshape(16, -1)
    second = (s[:, None, 2] * s[None, :, 3]).reshape(16, -1)
    return (first * weight) @ second.T


def _slabs(grid: Grid):
    """The grid cut into slabs: nodes, weights, and how many slabs are used, in few sizes to compile."""
    slabs = -(-len(grid.weights) // _SLAB)
    for start in range(0, slabs, _SLABS_AT_ONCE[-1]):
        used = min(slabs - start, _SLABS_AT_ONCE[-1])
        held = next(count for count in _SLABS_AT_ONCE if used <= count)
        part = slice(start * _SLAB, (start + used) * _SLAB)
        nodes, weights = np.zeros((held * _SLAB, grid.nodes.shape[1])), np.zeros(held * _SLAB)
        nodes[: len(grid.weights[part])] = grid.nodes[part]
        weights[: len(grid.weights[part])] = grid.weights[part]
        yield nodes.reshape(held, _SLAB, -1), weights.reshape(held, _SLAB), used


def spread_out(
    table: dict[tuple[int, ...], Float[np.ndarray, "..."]],
    labels: Int[np.ndarray, " n"],
    signature: Signature,
    sides: Int[np.ndarray, " n"] | None = None,
) -> Quadruple:
    """The average of one signature for all quadruples of points, sorted or not.

    The table knows sorted quadruples of labels; its arrays have an axis for the order of each factor and,
    with `sides`, four more for a property of the points.
    """
    keys = sorted(table)
    values = np.stack([table[key] for key in keys])
    return values[places(keys, labels, signature, sides)].reshape((len(labels),) * 4)


def places(
    keys: list[tuple[int, ...]],
    labels: Int[np.ndarray, " n"],
    signature: Signature,
    sides: Int[np.ndarray, " n"] | None = None,
) -> tuple[Int[np.ndarray, " quadruples"], ...]:
    """Where the average of every quadruple of points is, in a table whose rows have these sorted keys."""
    number = np.zeros((labels.max() + 1,) * 4, dtype=int)
    number[tuple(np.array(keys).T)] = np.arange(len(keys))
    points = np.indices((len(labels),) * 4).reshape(4, -1).T
    order = np.argsort(labels[points], axis=1, kind="stable")
    points = np.take_along_axis(points, order, axis=1)
    index = [number[tuple(labels[points].T)], *np.array(signature)[order].T]
    if sides is not None:
        index += list(sides[points].T)
    return tuple(index)
