r"""Averages of activations with a kink at zero between sides that may be curved, such as ELU and SELU.

Where the m-th derivative jumps by $J_m$, the derivatives above it are distributions:
$\sigma^{(k)}=[\sigma^{(k)}]+\sum_{m<k}J_m\,\delta^{(k-m-1)}$, the bracket being the derivative on either
side. Products of brackets are averaged over cones. A delta function at one input leaves an average over the
other given that the first is zero: with $\mu=K_{ab}/K_{aa}$ and $s^2=K_{bb}-K_{ab}^2/K_{aa}$,

$$\langle\delta^{(i)}(z_a)f(z_b)\rangle=\sum_j\binom ij p_{i-j}\Big(-\frac\mu s\Big)^j
\langle f(sv)\,He_j(v)\rangle,\qquad p_r=\frac{He_r(0)}{\sqrt{2\pi}\,K_{aa}^{(r+1)/2}}.$$
"""

import functools
import itertools
import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from finitewidth._base.arrays import Elementwise, Matrix, Quadruple
from finitewidth._base.tracing import outside_tracing
from finitewidth.expectations.four_factors.axis_rules import SIGNATURES, Signature
from finitewidth.expectations.four_factors.derivative_moments import HIGHEST_DERIVATIVE, tower
from finitewidth.expectations.four_factors.four_point import FourPoint, patterns_of, set_averages, spread_out
from finitewidth.expectations.kinked.cones import cone_grid, thin_root
from finitewidth.expectations.kinked.kinks import shape_at_zero
from finitewidth.expectations.quadrature import gaussian_rule

FLUCTUATION_SIGNATURES: tuple[Signature, ...] = ((0, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 1))
_RADIAL = (24, 32, 48, 64, 96, 128, 192)
_ANGULAR = (8, 11, 14, 18, 22, 28)
# Correlations closer to one than this cannot be told from one by averages of the layer below.
_PARALLEL = 1e-9
_ORDERS = HIGHEST_DERIVATIVE + 1


def jumps_of(function: Elementwise) -> tuple[float, ...]:
    """Jumps at zero of the derivatives of order 1, 2, ...; all zero for a smooth function."""
    found = shape_at_zero(function).jumps
    return (*found, *(0.0,) * (HIGHEST_DERIVATIVE - len(found)))


def parallel_pairs(K: Matrix) -> Bool[np.ndarray, "n n"]:
    """Pairs of inputs whose preactivations are multiples of each other."""
    q = np.diag(K)
    return q[:, None] * q - K**2 <= _PARALLEL * q[:, None] * q


def bent_pairs(function: Elementwise, K: Matrix, tolerance: float) -> Float[np.ndarray, "6 6 n n"]:
    r"""$\langle\sigma^{(k)}_a\sigma^{(l)}_b\rangle$; for parallel inputs without the delta functions."""
    K = np.asarray(K)
    M = _bracket_pairs(function, K, tolerance)
    jumps = jumps_of(function)
    apart = ~parallel_pairs(K)
    moments = _GivenZero(function, np.where(apart, K, 0.0), np.diag(K))
    for k, l in itertools.product(range(_ORDERS), repeat=2):
        for m in range(1, k):
            M[k, l] += np.where(apart, jumps[m - 1] * moments.with_bracket(k - m - 1, l), 0.0)
        for n in range(1, l):
            M[k, l] += np.where(apart, jumps[n - 1] * moments.with_bracket(l - n - 1, k).T, 0.0)
        for m, n in itertools.product(range(1, k), range(1, l)):
            both = moments.two_deltas(k - m - 1, l - n - 1)
            M[k, l] += np.where(apart, jumps[m - 1] * jumps[n - 1] * both, 0.0)
    return M


def _bracket_pairs(
    function: Elementwise, K: Float[np.ndarray, "n n"], tolerance: float
) -> Float[np.ndarray, "6 6 n n"]:
    """Averages of the derivatives on either side, all pairs of inputs in one evaluation."""
    n = len(K)
    pairs = list(itertools.combinations_with_replacement(range(n), 2))
    radial = radial_nodes(function, float(np.sqrt(np.diag(K).max())), tolerance)
    roots = [thin_root(K[np.ix_(pair, pair)]) for pair in pairs]
    grids = [cone_grid(root, radial, _ANGULAR[-1], tolerance) for root in roots]
    z = np.concatenate([grid.nodes @ root.T for grid, root in zip(grids, roots, strict=True)])
    s = _brackets(function, z)
    ends = np.cumsum([len(grid.weights) for grid in grids])
    M = np.zeros((_ORDERS, _ORDERS, n, n))
    for (a, b), grid, end in zip(pairs, grids, ends, strict=True):
        here = s[:, end - len(grid.weights) : end]
        M[:, :, a, b] = (here[..., 0] * grid.weights) @ here[..., 1].T
        M[:, :, b, a] = M[:, :, a, b].T
    return M


def _brackets(
    function: Elementwise, z: Float[np.ndarray, "*s"], highest: int = HIGHEST_DERIVATIVE
) -> Float[np.ndarray, "orders *s"]:
    """Derivatives up to the highest; z is filled up to a power of two, so that few sizes are compiled."""
    filled = np.zeros(2 ** math.ceil(math.log2(max(z.size, 1))))
    filled[: z.size] = z.ravel()
    with outside_tracing():
        found = np.stack([np.asarray(d) for d in tower(function, filled, highest)])
    return found[:, : z.size].reshape(-1, *z.shape)


class _GivenZero:
    """Averages with delta functions at the row input, for all pairs at once."""

    def __init__(self, function, K: Matrix, q: Float[np.ndarray, " n"]):
        rule = gaussian_rule()
        self._q = q[:, None]
        self._std = np.sqrt(q - K**2 / self._q)
        self._ratio = -K / self._q / self._std
        self._hermite = np.polynomial.hermite_e.hermevander(rule.nodes, 2 * _ORDERS) * rule.weights[:, None]
        self._brackets = _brackets(function, self._std[..., None] * rule.nodes)

    def with_bracket(self, i: int, l: int) -> Matrix:
        """<delta^(i)(z_a) [sigma^(l)](z_b)>."""
        return self._sum(i, lambda j: self._brackets[l] @ self._hermite[:, j])

    def two_deltas(self, i: int, l: int) -> Matrix:
        """<delta^(i)(z_a) delta^(l)(z_b)>."""
        scale = math.sqrt(2 * math.pi) * self._std ** (l + 1)
        # By parts, delta^(l) He_j(v) averages to the derivative of He_j times the density: He_(l+j)(0).
        return self._sum(i, lambda j: _hermite_at_zero(l + j) / scale)

    def _sum(self, i: int, average: Callable[[int], np.ndarray]) -> Matrix:
        total = np.zeros_like(self._ratio)
        for j in range(i + 1):
            r = i - j
            density = _hermite_at_zero(r) / (math.sqrt(2 * math.pi) * self._q ** ((r + 1) / 2))
            total = total + math.comb(i, j) * density * self._ratio**j * average(j)
        return total


def _hermite_at_zero(order: int) -> float:
    """He_order(0)."""
    if order % 2:
        return 0.0
    return (-1.0) ** (order // 2) * math.prod(range(1, order, 2))


def bent_four_point(function: Elementwise, K: Matrix, tolerance: float) -> FourPoint:
    """Averages of four factors for all quadruples of inputs: values and slopes, and all if no slope jumps."""
    K = np.asarray(K)
    n = len(K)
    jumps = jumps_of(function)
    table = {}
    for m in range(1, min(n, 4) + 1):
        for labels in itertools.combinations(range(n), m):
            averages = _set_of_inputs(function, K[np.ix_(labels, labels)], tolerance)
            quadruples = np.array(labels)[np.array(patterns_of(m))].tolist()
            table.update(zip(map(tuple, quadruples), averages, strict=True))
    signatures = FLUCTUATION_SIGNATURES if jumps[0] else SIGNATURES
    four = {signature: spread_out(table, np.arange(n), signature) for signature in signatures}
    if not jumps[0] and jumps[1]:
        four[3, 1, 1, 1] += jumps[1] * _slopes_given_zero(function, K, tolerance)
    return four


def _set_of_inputs(
    function: Elementwise, K: Float[np.ndarray, "m m"], tolerance: float
) -> Float[np.ndarray, "patterns 4 4 4 4"]:
    """More directions until they make no difference."""
    root = thin_root(K)
    radial = radial_nodes(function, float(np.sqrt(np.diag(K).max())), tolerance)
    patterns = patterns_of(len(K))
    previous = None
    for angular in _ANGULAR:
        averages = set_averages(function, root, cone_grid(root, radial, angular, tolerance), patterns)
        used = averages[:, :2, :2, :2, :2]
        if previous is not None and np.abs(used - previous).max() <= tolerance * np.abs(used).max():
            return averages
        previous = used
    raise ValueError(
        f"averages of four factors do not converge at preactivation variances {np.diag(K)}: "
        f"{_ANGULAR[-1]} directions per dimension do not reach {tolerance:.1e}; standardise inputs or lower "
        "C_b and C_W."
    )


def _slopes_given_zero(function: Elementwise, K: Float[np.ndarray, "n n"], tolerance: float) -> Quadruple:
    """<delta(z_a) sigma'_b sigma'_c sigma'_d>, the slope being continuous."""
    n = len(K)
    result = np.zeros((n,) * 4)
    radial = radial_nodes(function, float(np.sqrt(np.diag(K).max())), tolerance)
    flat = float(_brackets(function, np.zeros(1), 1)[1, 0])
    parallel = parallel_pairs(K)
    for a in range(n):
        density = 1 / math.sqrt(2 * math.pi * K[a, a])
        given = K - np.outer(K[a], K[a]) / K[a, a]
        fixed = parallel[a]
        given[fixed] = given[:, fixed] = 0.0
        for triple in itertools.combinations_with_replacement(range(n), 3):
            free = sorted({i for i in triple if not fixed[i]})
            value = flat ** sum(fixed[i] for i in triple)
            if free:
                root = thin_root(given[np.ix_(free, free)])
                grid = cone_grid(root, radial, _ANGULAR[-2], tolerance)
                slopes = _brackets(function, grid.nodes @ root.T, 1)[1]
                value *= grid.weights @ math.prod(slopes[:, free.index(i)] for i in triple if not fixed[i])
            for order in itertools.permutations(triple):
                result[(a, *order)] = density * value
    return result


@functools.lru_cache(maxsize=1024)
def radial_nodes(function: Elementwise, spread: float, tolerance: float) -> int:
    """Distances from the origin that resolve the activation at this spread, found in one dimension."""
    root = np.full((1, 1), spread)
    patterns = patterns_of(1)
    previous = None
    for count in _RADIAL:
        averages = set_averages(function, root, cone_grid(root, count, 1, tolerance), patterns)
        if previous is not None and np.abs(averages - previous).max() <= tolerance * np.abs(averages).max():
            return count
        previous = averages
    raise ValueError(
        f"averages do not converge at a preactivation spread of {spread:.3g}: {_RADIAL[-1]} nodes do not "
        f"reach {tolerance:.1e}; standardise inputs or lower C_b and C_W, and use an activation without "
        "kinks away from zero."
    )
