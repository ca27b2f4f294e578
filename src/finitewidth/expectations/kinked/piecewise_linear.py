r"""Averages of activations that are linear on either side of a kink at zero.

$\sigma(z)=\alpha z+\beta|z|$ has the slope $\alpha+\beta\,\mathrm{sgn}\,z$ and the curvature
$2\beta\,\delta(z)$. Averages over two different inputs stay finite at every order of differentiation, because
integration by parts moves the derivatives to the Gaussian density:
$\langle\partial_a\partial_bf\rangle=\partial\langle f\rangle/\partial K_{ab}$ (twice that for a = b).
Averages of four values or slopes come from moments of coordinates and signs; Stein's identity takes the
coordinates away one by one and leaves averages of signs.
"""

import itertools
import math
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from finitewidth._base.arrays import Elementwise, Matrix
from finitewidth._base.tracing import outside_tracing
from finitewidth.expectations.four_factors.four_point import FourPoint, patterns_of, spread_out

KINKED_SIGNATURES = ((0, 0, 0, 0), (1, 1, 0, 0), (1, 1, 1, 1))
_TWO_OVER_PI = 2 / math.pi
# Inputs are parallel when 1 - rho^2 is rounding.
_PARALLEL = 1e-13
_ANGLES = 96
# Linearly dependent inputs would leave signs of components that are fixed at zero; this share of independent
# noise in every component gives them their limit. Inputs are dependent when the smallest eigenvalue of their
# correlations is below the second number.
_APART = 1e-10
_DEPENDENT = 1e-8


class Slopes(NamedTuple):
    """Slopes on the negative and on the positive side."""

    left: float
    right: float


def slopes_of(function: Elementwise) -> Slopes | None:
    """Both slopes of a function that is linear on either side of zero; None for any other."""
    with outside_tracing():
        z = jnp.linspace(0.1, 8.0, 80)
        right, left = np.asarray(function(z) / z), np.asarray(function(-z) / -z)
    scale = max(np.abs(right).max(), np.abs(left).max())
    if max(np.ptp(right), np.ptp(left)) > 1e-13 * scale:
        return None
    return Slopes(float(left[0]), float(right[0]))


def kinked_pairs(slopes: Slopes, K: Matrix) -> Float[np.ndarray, "6 6 n n"]:
    r"""$\langle\sigma^{(k)}_a\sigma^{(l)}_b\rangle$ for k + l even.

    At one input, or two parallel ones, products of distributions have no meaning of their own; only their
    sums in derivatives of $\langle\sigma^2\rangle$ and $\langle\sigma'^2\rangle$ do, and these vanish, the
    two being linear and constant in K. So the entries are zero there.
    """
    alpha, beta = (slopes.right + slopes.left) / 2, (slopes.right - slopes.left) / 2
    q = np.diag(K)
    Kaa, Kbb = q[:, None], q[None, :]
    determinant = Kaa * Kbb - K**2
    apart = determinant > _PARALLEL * Kaa * Kbb
    D = np.where(apart, determinant, 1.0)
    root = np.sqrt(D)
    arcsine = np.arcsin(np.clip(K / np.sqrt(Kaa * Kbb), -1, 1))
    kink = _TWO_OVER_PI * beta**2
    M = np.zeros((6, 6, *K.shape))
    M[0, 0] = alpha**2 * K + kink * (np.where(apart, root, 0.0) + K * arcsine)
    M[1, 1] = alpha**2 + kink * arcsine
    by_order = {
        (2, 0): root / Kaa,
        (2, 2): 1 / root,
        (3, 1): -K / (Kaa * root),
        (3, 3): K / root**3,
        (4, 0): Kbb / (Kaa * root) - 2 * root / Kaa**2,
        (4, 2): -Kbb / root**3,
        (5, 1): 2 * K / (Kaa**2 * root) + K * Kbb / (Kaa * root**3),
    }
    for (k, l), value in by_order.items():
        M[k, l] = np.where(apart, kink * value, 0.0)
        M[l, k] = M[k, l].T
    return M


def kinked_four_point(slopes: Slopes, K: Matrix) -> FourPoint:
    r"""Averages of four factors, values or slopes, for all quadruples of inputs.

    Parallel inputs are one direction: $z_i=kz_j$ has the value $kz_j(\alpha\pm\beta\,\mathrm{sgn}\,z_j)$ and
    the slope $\alpha\pm\beta\,\mathrm{sgn}\,z_j$, with the sign of k.
    """
    K = np.asarray(K)
    labels, factors = _directions(K)
    distinct = np.unique(labels)
    opposite = (factors < 0).astype(int)
    table = {}
    for m in range(1, min(len(distinct), 4) + 1):
        sets = np.array(list(itertools.combinations(distinct, m)))
        moments = SignedMoments(_kept_apart(K[sets[:, :, None], sets[:, None, :]]))
        for pattern in patterns_of(m):
            values = _products(slopes, moments, pattern, sides=(0, 1) if opposite.any() else (0,))
            table.update(zip(map(tuple, sets[:, list(pattern)].tolist()), values, strict=True))
    averages = {}
    for signature in KINKED_SIGNATURES:
        sizes = [np.ones_like(factors) if order else factors for order in signature]
        size = np.einsum("a,b,c,d->abcd", *sizes)
        averages[signature] = size * spread_out(table, labels, signature, opposite)
    return averages


def _directions(K: Float[np.ndarray, "n n"]) -> tuple[Int[np.ndarray, " n"], Float[np.ndarray, " n"]]:
    """For every input the first one parallel to it, and how many times that one it is."""
    q = np.diag(K)
    parallel = q[:, None] * q - K**2 <= _PARALLEL * q[:, None] * q
    labels = np.argmax(parallel, axis=1)
    return labels, K[np.arange(len(K)), labels] / q[labels]


def _kept_apart(K: Float[np.ndarray, "sets m m"]) -> Float[np.ndarray, "sets m m"]:
    std = np.sqrt(np.einsum("sii->si", K))
    dependent = np.linalg.eigvalsh(K / (std[:, :, None] * std[:, None, :]))[:, 0] < _DEPENDENT
    return K * (1 + _APART * dependent[:, None, None] * np.eye(K.shape[-1]))


def _products(
    slopes: Slopes, moments: "SignedMoments", pattern: tuple[int, ...], sides: tuple[int, ...]
) -> Float[np.ndarray, "sets 2 2 2 2 sides sides sides sides"]:
    r"""Averages of four factors, each a value (order 0) or a slope (order 1), with an even number of slopes.

    The factors of one input multiply to $z^e(A+B\,\mathrm{sgn}\,z)$ with e values among them.
    """
    result = np.zeros((len(moments.K), *(2,) * 4, *(len(sides),) * 4))
    labels = range(moments.K.shape[-1])
    for orders, side in itertools.product(
        itertools.product((0, 1), repeat=4), itertools.product(sides, repeat=4)
    ):
        if sum(orders) % 2:
            continue
        powers = tuple(sum(1 - k for i, k in zip(pattern, orders, strict=True) if i == j) for j in labels)
        right, left = (
            [math.prod(slopes[s ^ bit] for i, s in zip(pattern, side, strict=True) if i == j) for j in labels]
            for bit in (1, 0)
        )
        for signs in itertools.product((False, True), repeat=len(labels)):
            size = math.prod((right[j] + (-left[j] if signs[j] else left[j])) / 2 for j in labels)
            if size:
                result[(slice(None), *orders, *side)] += size * moments(powers, signs)
    return result


class SignedMoments:
    r"""$\langle\prod_iz_i^{p_i}\prod_{j\in S}\mathrm{sgn}\,z_j\rangle$ of many Gaussian vectors at once."""

    def __init__(self, K: Float[np.ndarray, "sets m m"]):
        self.K = K
        self._known: dict[tuple[tuple[int, ...], tuple[bool, ...]], np.ndarray] = {}
        self._given: dict[int, SignedMoments] = {}

    def __call__(self, powers: tuple[int, ...], signs: tuple[bool, ...]) -> Float[np.ndarray, " sets"]:
        """The moment with the given powers and signs, one of each per component."""
        if (sum(powers) + sum(signs)) % 2:
            return np.zeros(len(self.K))
        if (powers, signs) not in self._known:
            a = next((i for i, p in enumerate(powers) if p), None)
            if a is None:
                labels = [i for i, sign in enumerate(signs) if sign]
                value = _sign_average(self.K[:, labels][:, :, labels])
            else:
                value = self._lowered(a, powers, signs)
            self._known[powers, signs] = value
        return self._known[powers, signs]

    def _lowered(self, a: int, powers: tuple[int, ...], signs: tuple[bool, ...]) -> np.ndarray:
        """Stein: z_a acts as the sum over b of K_ab d/dz_b on the other factors."""
        left = _changed(powers, a, powers[a] - 1)
        total = np.zeros(len(self.K))
        for b, power in enumerate(left):
            if power:
                total += self.K[:, a, b] * power * self(_changed(left, b, power - 1), signs)
            elif signs[b]:
                # The derivative of a sign is twice a delta function, which sets z_b to zero.
                density = np.sqrt(_TWO_OVER_PI / self.K[:, b, b])
                rest = self._conditioned(b)(_without(left, b), _without(signs, b))
                total += self.K[:, a, b] * density * rest
        return total

    def _conditioned(self, b: int) -> "SignedMoments":
        if b not in self._given:
            others = [i for i in range(self.K.shape[-1]) if i != b]
            cross = self.K[:, others, b]
            conditional = self.K[:, others][:, :, others] - (
                cross[:, :, None] * cross[:, None, :] / self.K[:, b, b, None, None]
            )
            self._given[b] = SignedMoments(conditional)
        return self._given[b]


def _changed(entries: tuple[int, ...], i: int, value: int) -> tuple[int, ...]:
    return (*entries[:i], value, *entries[i + 1 :])


def _without(entries: tuple, i: int) -> tuple:
    return (*entries[:i], *entries[i + 1 :])


def _sign_average(K: Float[np.ndarray, "sets m m"]) -> Float[np.ndarray, " sets"]:
    """The average of the product of the signs of none, two or four components."""
    if K.shape[-1] == 0:
        return np.ones(len(K))
    std = np.sqrt(np.einsum("sii->si", K))
    rho = np.clip(K / (std[:, :, None] * std[:, None, :]), -1, 1)
    if K.shape[-1] == 2:
        return _TWO_OVER_PI * np.arcsin(rho[:, 0, 1])
    return _four_signs(rho)


def _four_signs(rho: Float[np.ndarray, "sets 4 4"]) -> Float[np.ndarray, " sets"]:
    """The path from independent components, all correlations growing as t = sin(angle).

    By Plackett's identity each correlation contributes the density of its two components at zero times
    the average of the other two signs given that.
    """
    nodes, weights = np.polynomial.legendre.leggauss(_ANGLES)
    # Nearly parallel inputs change the integrand fast at the end of the path: nodes gather there.
    s, ds = (1 - nodes) / 2, weights / 2
    angle, d_angle = math.pi / 2 * (1 - s**3), 3 * math.pi / 2 * s**2 * ds
    t, cosine = np.sin(angle), np.cos(angle)
    path = rho[:, None] * t[:, None, None]
    path[:, :, range(4), range(4)] = 1.0
    total = np.zeros(len(rho))
    for a, b in itertools.combinations(range(4), 2):
        c, d = (i for i in range(4) if i not in (a, b))
        r = path[..., a, b]
        root = np.sqrt(np.maximum(1 - rho[:, None, a, b] ** 2 + (rho[:, None, a, b] * cosine) ** 2, 1e-300))
        inverse = 1 / np.maximum(root**2, _PARALLEL)

        def given(i, j, r=r, inverse=inverse, a=a, b=b):
            ia, ib, ja, jb = (path[..., i, a], path[..., i, b], path[..., j, a], path[..., j, b])
            return path[..., i, j] - (ia * ja + ib * jb - r * (ia * jb + ib * ja)) * inverse

        variances = np.maximum(given(c, c) * given(d, d), 0.0)
        fixed = variances <= _PARALLEL
        conditional = np.where(fixed, 0.0, given(c, d) / np.sqrt(np.where(fixed, 1.0, variances)))
        signs = np.arcsin(np.clip(conditional, -1, 1))
        total += _TWO_OVER_PI**2 * (rho[:, None, a, b] * cosine / root * signs) @ d_angle
    return total
