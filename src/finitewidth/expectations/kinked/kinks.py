r"""How an activation behaves around zero, and the slow Hermite tails that a kink leaves.

The ramp $f_m(u)=u^m/m!$ for $u>0$, zero otherwise, is the simplest function whose m-th derivative
jumps by one at zero. An activation whose m-th derivative jumps by $J_m$ has the high-order Hermite
coefficients $c_k(q)\approx\sum_m J_m q^{m/2} r^{(m)}_k$, where $r^{(m)}_k$ are those of the ramps; and
the pair averages of ramps are arc-cosine kernels in closed form.
"""

import functools
import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import Elementwise
from finitewidth._base.tracing import outside_tracing
from finitewidth.expectations.angles import angle

_OFFSET = 1e-9
_JUMP_THRESHOLD = 1e-6
_PARITY_TOLERANCE = 1e-13
HIGHEST_JUMP = 5
_DIGITS_TO_LOSE = 5
_GRID = np.linspace(0.05, 8.0, 160)


class Shape(NamedTuple):
    """What the series must know of an activation besides its values.

    Attributes
    ----------
    first, stride
        Orders `first, first + stride, ...` are used beside 0 and 1; the stride is 2 when the
        activation is odd, or even, up to a constant and a linear part.
    jumps
        Jumps at zero of the derivatives of order 1, 2, ...; empty for a smooth activation.
    """

    first: int
    stride: int
    jumps: tuple[float, ...]

    def usable(self, largest: float) -> "Shape":
        """Only the jumps whose tails can be summed at variances up to `largest`.

        The tail of order m is the difference of two numbers of size q^m, so it is given up where that
        would cost more than `_DIGITS_TO_LOSE` digits.
        """
        most = 1 + _DIGITS_TO_LOSE / math.log10(largest) if largest > 10 else HIGHEST_JUMP
        return self._replace(jumps=self.jumps[: int(most)])

    def jump_sizes(self, std):
        """J_m std^m for every input and order."""
        return std[:, None] ** np.arange(1, len(self.jumps) + 1) * np.array(self.jumps)


class Kink(NamedTuple):
    """Where the slope of an activation jumps, and its values on both sides."""

    at: float
    left: float
    right: float

    @property
    def jump(self) -> float:
        """By how much the slope steps up."""
        return self.right - self.left


def kinks_at(function: Elementwise, places: tuple[float, ...]) -> tuple[Kink, ...]:
    """The kinks of a function at the places where its slope does jump, in rising order."""
    where = np.unique(np.array(places, float))
    apart = _OFFSET * np.maximum(1.0, np.abs(where))
    with outside_tracing():
        sides = jnp.asarray(np.stack([where - apart, where + apart]))
        left, right = np.asarray(evaluate(function, sides)[1])
    found = zip(where.tolist(), left.tolist(), right.tolist(), strict=True)
    return tuple(Kink(*one) for one in found if abs(one[2] - one[1]) > _JUMP_THRESHOLD)


def value_and_slope(function: Elementwise, z: Float[Array, "*s"]):
    """sigma(z) and sigma'(z) elementwise."""
    return jax.jvp(function, (z,), (jnp.ones_like(z),))


# One program where the same operations one by one would be a dozen.
evaluate = jax.jit(value_and_slope, static_argnums=0)


@functools.lru_cache(maxsize=512)
def shape_at_zero(function: Elementwise) -> Shape:
    """Parity and jumps of an elementwise function, found by evaluating it."""
    with outside_tracing():
        plus, minus, steps = (np.asarray(a) for a in _around_zero(function))
    return Shape(*_parity(plus, minus), _jumps(steps))


@functools.partial(jax.jit, static_argnums=0)
def _around_zero(function: Elementwise):
    """Values on the grid, on its mirror image, and by how much each derivative steps up across zero."""
    right = jnp.array([_OFFSET, 4 * _OFFSET])
    steps, derivative = [], function
    for _ in range(HIGHEST_JUMP + 1):
        steps.append(derivative(right) - derivative(-right))
        derivative = functools.partial(_slope, derivative)
    grid = jnp.asarray(_GRID)
    return function(grid), function(-grid), jnp.stack(steps)


def _parity(plus: Float[np.ndarray, " grid"], minus: Float[np.ndarray, " grid"]) -> tuple[int, int]:
    odd, even = (plus - minus) / 2, (plus + minus) / 2
    scale = max(np.abs(plus).max(), np.abs(minus).max())
    if np.ptp(even) <= _PARITY_TOLERANCE * scale:
        return 3, 2
    if np.ptp(odd / _GRID) <= _PARITY_TOLERANCE * scale / 0.05:
        return 2, 2
    return 2, 1


def _jumps(steps: Float[np.ndarray, "orders 2"]) -> tuple[float, ...]:
    # A jump is the same at both distances; a root such as |z|^1.5 has a difference that is not.
    jumps = []
    for near, far in steps.tolist():
        same = math.isfinite(near) and abs(near - far) <= _JUMP_THRESHOLD * abs(near)
        jumps.append(near if same and abs(near) > _JUMP_THRESHOLD else 0.0)
    if jumps[0]:
        raise ValueError(
            f"the activation jumps by {jumps[0]:.3g} at zero; the Hermite series needs a continuous "
            "function (the step function is built in as 'step')."
        )
    return tuple(jumps[1:]) if any(jumps) else ()


def _slope(function: Elementwise, z: Array) -> Array:
    return value_and_slope(function, z)[1]


def ramp_coefficients(terms: int) -> Float[np.ndarray, "ramps terms"]:
    """Hermite coefficients of the ramps of order 1, 2, ... up to the highest jump looked at."""
    k = np.arange(1, terms)
    # h_k(0), normalised: zero for odd k, of alternating sign for even k.
    at_zero = np.zeros(terms)
    at_zero[0] = 1.0
    for j in range(2, terms, 2):
        at_zero[j] = -at_zero[j - 2] * math.sqrt((j - 1) / j)
    coefficients = np.concatenate([[0.5], at_zero[:-1] / np.sqrt(2 * np.pi * k)])
    ramps = []
    for order in range(1, HIGHEST_JUMP + 1):
        coefficients = np.concatenate([[_ramp_mean(order)], coefficients[:-1] / np.sqrt(k)])
        ramps.append(coefficients)
    return np.stack(ramps)


def ramp_tails_at_one(terms: int) -> tuple[np.ndarray, np.ndarray]:
    """What orders >= `terms` add to E[f_m f_n], and to its derivative in rho, at rho = 1.

    Two (ramps, ramps) matrices.
    """
    coefficients = ramp_coefficients(terms)
    orders = np.arange(1, HIGHEST_JUMP + 1)
    moment = np.array([_ramp_mean(s) * math.factorial(s) for s in range(2 * HIGHEST_JUMP + 1)])
    factorial = np.array([math.factorial(m) for m in orders])
    value = moment[orders[:, None] + orders] / np.outer(factorial, factorial)
    lower = factorial / orders
    slope = moment[orders[:, None] + orders - 2] / np.outer(lower, lower)
    return (value - coefficients @ coefficients.T, slope - (coefficients * np.arange(terms)) @ coefficients.T)


def _ramp_mean(order: int) -> float:
    """E[f_m(u)] for u ~ N(0, 1)."""
    moment = 2 ** (order / 2 - 1) * math.gamma((order + 1) / 2) / math.sqrt(math.pi)
    return moment / math.factorial(order)


class RampPairs:
    """E[f_m(u) f_n(v)] for unit variances and correlation rho, for all orders m, n."""

    def __init__(self, rho: Float[Array, "*s"]):
        self._rho = rho
        complement, self._sine = angle(rho)
        self._known = {(0, 0): complement / (2 * math.pi)}

    def __call__(self, m: int, n: int) -> Float[Array, "*s"]:
        """Stein's identity lowers the orders until only the angle is left."""
        if m < n:
            m, n = n, m
        if (m, n) not in self._known:
            if n < 0:
                value = self._sine**m * (_ramp_mean(m) / math.sqrt(2 * math.pi))
            else:
                value = (self(m - 2, n) + self._rho * self(m - 1, n - 1)) / m
            self._known[m, n] = value
        return self._known[m, n]
