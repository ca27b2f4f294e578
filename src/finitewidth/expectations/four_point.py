r"""Averages of four factors, $\langle\sigma^{(i)}_a\sigma^{(j)}_b\sigma^{(k)}_c\sigma^{(l)}_d\rangle_K$.

A set of m different inputs ($m\le4$) is a Gaussian vector $z=Lu$ of m independent components. The
trapezoid rule on a uniform grid of u, pruned to a ball, converges geometrically for analytic
integrands; its error is aliasing, at most as large along each axis as for one neuron whose
preactivation spreads as far as that axis reaches. So the step of every axis is found in one dimension,
where aliasing shows as a dependence on where the grid starts.
"""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int
from scipy.special import gammainccinv

from finitewidth.expectations.derivative_moments import derivatives

Signature = tuple[int, int, int, int]
SIGNATURES: tuple[Signature, ...] = (
    (0, 0, 0, 0),
    (1, 1, 0, 0),
    (1, 1, 1, 1),
    (2, 1, 1, 0),
    (2, 2, 1, 1),
    (3, 1, 1, 1),
)
_HIGHEST = 3

# Steps that are tried, where each grid starts, and where the axis crosses the activation.
_STEPS = 0.95 * 0.95 ** np.arange(60)
_STARTS = np.arange(4) / 4
_CENTRES = np.array([0.0, 0.6, 1.5])
_SPREAD_RATIO = 1.1

# The products of a slab fill 2 MB, the second-level cache.
_SLAB = 4096
_SLABS_AT_ONCE = (1, 8, 64)
_MOST_NODES = 30_000_000

FourPoint = dict[Signature, Float[np.ndarray, "n n n n"]]


class Grid(NamedTuple):
    """Nodes u of independent unit Gaussians, and their weights."""

    nodes: Float[np.ndarray, "nodes rank"]
    weights: Float[np.ndarray, " nodes"]


def four_point_averages(
    function: Callable[[Array], Array], K: Float[np.ndarray, "n n"], tolerance: float
) -> FourPoint:
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
    n = len(K)
    symmetric = _has_parity(function)
    table = {}
    for m in range(1, min(n, 4) + 1):
        sets = np.array(list(itertools.combinations(range(n), m)))
        patterns = patterns_of(m)
        for labels, root in zip(sets, _roots(K[sets[:, :, None], sets[:, None, :]]), strict=True):
            steps = [_step(function, float(w), tolerance / m) for w in np.abs(root).max(axis=0)]
            grid = trapezoid(steps, tolerance, half=symmetric)
            averages = set_averages(function, root, grid, patterns)
            quadruples = labels[np.array(patterns)].tolist()
            table.update(zip(map(tuple, quadruples), averages, strict=True))
    return {signature: spread_out(table, np.arange(n), signature) for signature in SIGNATURES}


@functools.lru_cache(maxsize=512)
def _has_parity(function: Callable[[Array], Array]) -> bool:
    """Whether the function is odd or even: then all `SIGNATURES` are the same at z and at -z."""
    with jax.ensure_compile_time_eval():
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


def trapezoid(steps: Sequence[float], tolerance: float, half: bool = False) -> Grid:
    """Uniform grid in as many dimensions as there are steps, pruned where the Gaussian has no mass.

    With `half` only nodes whose first component is not negative, which stand for their mirror images too.
    """
    dimension = len(steps)
    # The mass beyond a radius in four dimensions bounds that in fewer.
    radius = math.sqrt(2 * gammainccinv(2, tolerance / 100))
    volume = math.pi ** (dimension / 2) / math.gamma(dimension / 2 + 1) * radius**dimension
    expected = volume / math.prod(steps)
    if expected > _MOST_NODES:
        raise ValueError(
            f"averages of four factors would take {expected:.1e} quadrature nodes for each set of inputs (at "
            f"most {_MOST_NODES:.0e}): the preactivation variances are too large; standardise inputs or "
            "lower C_b and C_W."
        )
    nodes, squared = np.zeros((1, 0)), np.zeros(1)
    for axis, step in enumerate(steps):
        reach = int(radius / step)
        line = step * np.arange(0 if half and axis == 0 else -reach, reach + 1)
        total = squared[:, None] + line**2
        row, column = np.nonzero(total <= radius**2)
        nodes = np.concatenate([nodes[row], line[column, None]], axis=1)
        squared = total[row, column]
    weights = math.prod(steps) / (2 * math.pi) ** (dimension / 2) * np.exp(-squared / 2)
    if half:
        weights = weights * np.where(nodes[:, 0] > 0, 2.0, 1.0)
    return Grid(nodes, weights)


@functools.lru_cache(maxsize=4096)
def _step(function: Callable[[Array], Array], spread: float, tolerance: float) -> float:
    """The largest step whose aliasing error stays below the tolerance along an axis of this spread."""
    rung = math.ceil(math.log(max(spread, 1e-3)) / math.log(_SPREAD_RATIO))
    error = _aliasing(function, _SPREAD_RATIO**rung)
    enough = np.flatnonzero(error <= tolerance)
    if not enough.size:
        raise ValueError(
            f"averages of four factors do not converge at a preactivation spread of {spread:.3g}: the error "
            f"is {error.min():.1e} on the finest grid (asked for: {tolerance:.1e}); standardise inputs or "
            "lower C_b and C_W, and use an activation without kinks away from zero."
        )
    return float(_STEPS[enough[0]])


@functools.lru_cache(maxsize=4096)
def _aliasing(function: Callable[[Array], Array], spread: float) -> Float[np.ndarray, " steps"]:
    """How far the trapezoid rule of one axis depends on where it starts, for every step."""
    reach = 9.0
    j = np.arange(-int(reach / _STEPS[-1]), int(reach / _STEPS[-1]) + 1)
    u = _STEPS[:, None, None] * (_STARTS[:, None] + j)
    inside = np.abs(u) < reach
    density = np.where(inside, np.exp(-(u**2) / 2), 0.0) * _STEPS[:, None, None]
    z = _CENTRES[:, None, None, None] + spread * np.where(inside, u, 0.0)
    with jax.ensure_compile_time_eval():
        s = np.asarray(_derivatives(function, jnp.asarray(z)))
    worst = np.zeros(len(_STEPS))
    for signature in SIGNATURES:
        integrand = np.prod([s[k] for k in signature], axis=0)
        sums = np.sum(density * integrand, axis=-1)
        size = np.sum(density * np.abs(integrand), axis=-1)
        scale = size.max(axis=(0, 2))
        error = np.ptp(sums, axis=-1).max(axis=0)
        worst = np.maximum(worst, np.where(scale > 0, error / np.where(scale > 0, scale, 1), 0.0))
    return worst


def _stack(function: Callable[[Array], Array], z: Float[Array, "*s"]) -> Float[Array, "4 *s"]:
    return jnp.stack(derivatives(function, z, _HIGHEST))


_derivatives = jax.jit(_stack, static_argnums=0)


def set_averages(
    function: Callable[[Array], Array],
    root: Float[np.ndarray, "m rank"],
    grid: Grid,
    patterns: list[tuple[int, ...]],
) -> Float[np.ndarray, "patterns 4 4 4 4"]:
    """All averages with derivatives up to the third, over one set of inputs."""
    total = np.zeros((len(patterns), 16, 16))
    for part in zip(*_slabs(grid), strict=True):
        total = total + np.asarray(_partial_averages(function, tuple(patterns), root, *part))
    return total.reshape(len(patterns), 4, 4, 4, 4)


def _slabs(
    grid: Grid,
) -> tuple[Float[np.ndarray, "parts slabs slab rank"], Float[np.ndarray, "parts slabs slab"]]:
    """The grid cut into slabs that stay in the cache, in parts of few sizes so that little is compiled."""
    count, dimension = grid.nodes.shape
    slabs = next(n for n in _SLABS_AT_ONCE if n * _SLAB >= count or n == _SLABS_AT_ONCE[-1])
    parts = -(-count // (slabs * _SLAB))
    padding = parts * slabs * _SLAB - count
    nodes = np.pad(grid.nodes, ((0, padding), (0, 0)))
    weights = np.pad(grid.weights, (0, padding))
    return nodes.reshape(parts, slabs, _SLAB, dimension), weights.reshape(parts, slabs, _SLAB)


@functools.partial(jax.jit, static_argnames=("function", "patterns"))
def _partial_averages(
    function: Callable[[Array], Array],
    patterns: tuple[tuple[int, ...], ...],
    root: Float[Array, "m rank"],
    nodes: Float[Array, "slabs slab rank"],
    weights: Float[Array, "slabs slab"],
) -> Float[Array, "patterns 16 16"]:
    """Factors of one input as four numbers, of two as sixteen: then one matrix product per slab."""

    def add_slab(total, slab):
        u, weight = slab
        s = _stack(function, root @ u.T)

        def two_factors(a: int, b: int) -> Float[Array, "16 nodes"]:
            return (s[:, None, a] * s[None, :, b]).reshape(16, -1)

        parts = [(two_factors(a, b) * weight) @ two_factors(c, d).T for a, b, c, d in patterns]
        return total + jnp.stack(parts), None

    return lax.scan(add_slab, jnp.zeros((len(patterns), 16, 16)), (nodes, weights))[0]


def spread_out(
    table: dict[tuple[int, ...], Float[np.ndarray, "..."]],
    labels: Int[np.ndarray, " n"],
    signature: Signature,
    sides: Int[np.ndarray, " n"] | None = None,
) -> Float[np.ndarray, "n n n n"]:
    """The average of one signature for all quadruples of points, sorted or not.

    The table knows sorted quadruples of labels; its arrays have an axis for the order of each factor and,
    with `sides`, four more for a property of the points.
    """
    keys = sorted(table)
    values = np.stack([table[key] for key in keys])
    number = np.zeros((labels.max() + 1,) * 4, dtype=int)
    number[tuple(np.array(keys).T)] = np.arange(len(keys))
    points = np.indices((len(labels),) * 4).reshape(4, -1).T
    order = np.argsort(labels[points], axis=1, kind="stable")
    points = np.take_along_axis(points, order, axis=1)
    index = [number[tuple(labels[points].T)], *np.array(signature)[order].T]
    if sides is not None:
        index += list(sides[points].T)
    return values[tuple(index)].reshape((len(labels),) * 4)
