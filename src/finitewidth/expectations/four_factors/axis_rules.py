r"""Quadrature over a few independent unit Gaussians, as fine along each axis as an activation needs.

Along one axis the trapezoid rule on a uniform grid converges geometrically for analytic integrands; its error
is aliasing, at most as large as for one neuron whose preactivation spreads as far as that axis reaches, and
shows as a dependence on where the grid starts. Where the axis reaches so little that the activation is almost
a polynomial, a Gauss rule takes fewer nodes.
"""

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import gammainccinv

from finitewidth._base.arrays import Elementwise
from finitewidth._base.derivatives import value_and_derivatives
from finitewidth._base.tracing import outside_tracing
from finitewidth.expectations.quadrature import Rule

Signature = tuple[int, int, int, int]
SIGNATURES: tuple[Signature, ...] = (
    (0, 0, 0, 0),
    (1, 1, 0, 0),
    (1, 1, 1, 1),
    (2, 1, 1, 0),
    (2, 2, 1, 1),
    (3, 1, 1, 1),
)
HIGHEST = 3

# Steps that are tried, where each grid starts, and where the axis crosses the activation.
_STEPS = 0.95 * 0.95 ** np.arange(60)
_STARTS = np.arange(4) / 4
_CENTRES = np.array([0.0, 0.6, 1.5])
_ORDERS = range(1, 17)
# Rules are found for few spreads: along a narrow axis they hardly depend on it.
_NARROW, _NARROWEST = 0.1, 1e-8
_RATIO, _NARROW_RATIO = 1.1, 2.0
_REACH = 9.0
MOST_NODES = 30_000_000


class Grid(NamedTuple):
    """Nodes u of independent unit Gaussians, and their weights."""

    nodes: Float[np.ndarray, "nodes rank"]
    weights: Float[np.ndarray, " nodes"]


def gaussian_radius(tolerance: float) -> float:
    """Beyond it a unit Gaussian in at most four dimensions has a hundredth of the tolerance as mass."""
    return math.sqrt(2 * gammainccinv(2, tolerance / 100))


def axis_rule(function: Elementwise, spread: float, tolerance: float) -> Rule:
    """The smallest rule whose error stays below the tolerance along an axis of this spread."""
    ratio = _RATIO if spread > _NARROW else _NARROW_RATIO
    rung = math.ceil(math.log(max(spread, _NARROWEST) / _NARROW) / math.log(ratio))
    return _rule(function, _NARROW * ratio**rung, tolerance)


@functools.lru_cache(maxsize=4096)
def _rule(function: Elementwise, spread: float, tolerance: float) -> Rule:
    error = _errors(function, spread)
    radius = gaussian_radius(tolerance)
    fine = np.flatnonzero(error.trapezoid <= tolerance)
    gauss = np.flatnonzero(error.gauss <= tolerance)
    if gauss.size and (not fine.size or _ORDERS[gauss[0]] <= 2 * radius / _STEPS[fine[0]]):
        return _gauss(_ORDERS[gauss[0]])
    if not fine.size:
        raise ValueError(
            f"averages of four factors do not converge at a preactivation spread of {spread:.3g}: the error "
            f"is {error.trapezoid.min():.1e} on the finest grid (asked for: {tolerance:.1e}); standardise "
            "inputs or lower C_b and C_W, and use an activation without kinks away from zero."
        )
    step = _STEPS[fine[0]]
    u = step * np.arange(-int(radius / step), int(radius / step) + 1)
    return Rule(u, step * np.exp(-(u**2) / 2) / math.sqrt(2 * math.pi))


def coarsest_step(function: Elementwise, spread: float, tolerance: float) -> float:
    """The largest step whose error stays below the tolerance along such an axis; NaN where none does."""
    fine = np.flatnonzero(_errors(function, spread).trapezoid <= tolerance)
    return float(_STEPS[fine[0]]) if fine.size else math.nan


@functools.cache
def _gauss(order: int) -> Rule:
    nodes, weights = np.polynomial.hermite_e.hermegauss(order)
    # The middle node of an odd rule is its own mirror image.
    return Rule(np.where(np.abs(nodes) < 1e-12, 0.0, nodes), weights / weights.sum())


class _Errors(NamedTuple):
    """Relative errors of the trapezoid rule by step, and of the Gauss rule by order."""

    trapezoid: Float[np.ndarray, " steps"]
    gauss: Float[np.ndarray, " orders"]


@functools.lru_cache(maxsize=4096)
def _errors(function: Elementwise, spread: float) -> _Errors:
    j = np.arange(-int(_REACH / _STEPS[-1]), int(_REACH / _STEPS[-1]) + 1)
    u = _STEPS[:, None, None] * (_STARTS[:, None] + j)
    inside = np.abs(u) < _REACH
    density = np.where(inside, np.exp(-(u**2) / 2), 0.0) * _STEPS[:, None, None] / math.sqrt(2 * math.pi)
    most = _ORDERS[-1]
    gauss_nodes, gauss_weights = (
        np.stack([np.pad(a, (0, most - len(a))) for a in rule])
        for rule in zip(*(_gauss(order) for order in _ORDERS), strict=True)
    )
    z, gauss_z = (
        _CENTRES[:, None] + spread * nodes.reshape(1, -1) for nodes in (np.where(inside, u, 0.0), gauss_nodes)
    )
    with outside_tracing():
        s = np.asarray(_stacked(function, jnp.asarray(np.concatenate([z, gauss_z], axis=1))))
    trapezoid = s[:, :, : u.size].reshape(len(s), len(_CENTRES), *u.shape)
    gauss = s[:, :, u.size :].reshape(len(s), len(_CENTRES), *gauss_nodes.shape)
    worst = _Errors(np.zeros(len(_STEPS)), np.zeros(len(_ORDERS)))
    for signature in SIGNATURES:
        integrand = np.prod([trapezoid[k] for k in signature], axis=0)
        sums = np.sum(density * integrand, axis=-1)
        scale = np.sum(density * np.abs(integrand), axis=-1).max()
        if scale == 0:
            continue
        gauss_sums = np.sum(gauss_weights * np.prod([gauss[k] for k in signature], axis=0), axis=-1)
        exact = sums[:, -1].mean(axis=-1, keepdims=True)
        np.maximum(worst.trapezoid, np.ptp(sums, axis=-1).max(axis=0) / scale, out=worst.trapezoid)
        np.maximum(worst.gauss, np.abs(gauss_sums - exact).max(axis=0) / scale, out=worst.gauss)
    return worst


def stacked(function: Elementwise, z: Float[Array, "*s"]) -> Float[Array, "4 *s"]:
    """The function and its first three derivatives."""
    return jnp.stack(value_and_derivatives(function, z, HIGHEST))


_stacked = jax.jit(stacked, static_argnums=0)


def product_grid(rules: Sequence[Rule], tolerance: float, half: bool = False) -> Grid:
    """The product of rules, one for each axis, pruned where the Gaussian has no mass.

    With `half` only nodes whose first component is not negative, which stand for their mirror images too.
    """
    radius = gaussian_radius(tolerance)
    volume = math.prod(len(rule.nodes) for rule in rules)
    if volume > MOST_NODES:
        raise ValueError(
            f"averages of four factors would take {volume:.1e} quadrature nodes for each set of inputs (at "
            f"most {MOST_NODES:.0e}): the preactivation variances are too large; standardise inputs or "
            "lower C_b and C_W."
        )
    nodes, weights, squared = np.zeros((1, 0)), np.ones(1), np.zeros(1)
    for axis, (line, share) in enumerate(rules):
        if half and axis == 0:
            line, share = line[line >= 0], np.where(line > 0, 2 * share, share)[line >= 0]
        total = squared[:, None] + line**2
        row, column = np.nonzero(total <= radius**2)
        nodes = np.concatenate([nodes[row], line[column, None]], axis=1)
        weights, squared = weights[row] * share[column], total[row, column]
    return Grid(nodes, weights)
