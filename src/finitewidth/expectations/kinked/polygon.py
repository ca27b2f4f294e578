r"""Averages of continuous, piecewise linear activations with kinks anywhere, such as clip(z, -1, 1).

$s(z)=s_0+\alpha z+\sum_kJ_k(z-c_k)_+$ has the curvature $\sum_kJ_k\delta(z-c_k)$. The derivative of an
average by the covariance is the average of the derivatives, twice over, so that with $h_k=c_k/\sqrt{q}$

$$\langle s'_as'_b\rangle=\langle s'_a\rangle\langle s'_b\rangle
+\sum_{kl}\frac{J_kJ_l}{2\pi}\int_0^{\arcsin\rho}e^{-(h_k^2+h_l^2-2h_kh_l\sin\theta)/2\cos^2\theta}\,d\theta$$

and $\langle s_as_b\rangle$ is one more integral over the covariance.
"""

import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.scipy.special import ndtr
from jaxtyping import Array, Float

from finitewidth._base.tracing import outside_tracing
from finitewidth.expectations.kinked.kinks import Kink
from finitewidth.expectations.laws import Averages, ExactLaw

# Shares of the angle, in panels that shrink towards its end: two kinks that are close to each other, in
# standard deviations, are told apart within an angle of that size.
_PANELS, _NODES_PER_PANEL = 1 - np.array([1.0, 0.25, 0.0625, 0.0156, 0.0039, 0.001, 0.0]), 16
_UNIT, _UNIT_WEIGHTS = np.polynomial.legendre.leggauss(_NODES_PER_PANEL)
_SHARES = (_PANELS[:-1, None] + np.diff(_PANELS)[:, None] * (_UNIT + 1) / 2).ravel()
_WEIGHTS = (np.diff(_PANELS)[:, None] * _UNIT_WEIGHTS / 2).ravel() / (2 * math.pi)
_SMALLEST = 1e-30
_FAR = 1e3


class Features(NamedTuple):
    """Of one input: standard deviation, mean value and slope, and the kinks in standard deviations."""

    std: Float[Array, " n"]
    value: Float[Array, " n"]
    slope: Float[Array, " n"]
    kinks: Float[Array, "n kinks"]


class Polygon(ExactLaw):
    """A continuous function that is linear between its kinks."""

    kinks: tuple[Kink, ...] = eqx.field(static=True)
    at_zero: float = eqx.field(static=True)

    def _bends(self, dtype: np.dtype) -> tuple[Float[np.ndarray, " kinks"], Float[np.ndarray, " kinks"]]:
        """Where the kinks are, and by how much the slope jumps there."""
        return np.array([k.at for k in self.kinks], dtype), np.array([k.jump for k in self.kinks], dtype)

    def moments(self, q):
        r"""Averages over one variable, from the piece at zero on, so that small variances keep their digits.

        With $b_c=(|z|-|c|)_+$ on the side of a kink c and 0 on the other, s is $s(0)+mz+\sum_cJ_cb_c$. For
        $h=d/\sqrt q$, the normal density $\varphi$ and $\bar\Phi(h)=P(u>h)$, two bends at $0\le c\le d$ have
        $\langle b_cb_d\rangle=(q+cd)\,\bar\Phi(h)-c\sqrt q\,\varphi(h)$.
        """
        flat = q.ravel()
        one = self.features(flat)
        c, jump = self._bends(q.dtype)
        side, far = np.where(c < 0, -1, 1).astype(q.dtype), np.abs(c)
        h = jnp.abs(one.kinks)
        beyond, bell = ndtr(-h), jnp.exp(-(h**2) / 2) / math.sqrt(2 * math.pi)
        middle = self.kinks[0].left + float(jump[c < 0].sum())
        after = self.kinks[0].left + np.cumsum(jump)
        slope = middle**2 + beyond @ (side * (after**2 - (after - jump) ** 2))
        bends = one.std[:, None] * bell - far * beyond
        value = self.at_zero**2 + middle**2 * flat + 2 * self.at_zero * bends @ jump
        value = value + 2 * middle * flat * (beyond @ (side * jump))
        for i, j in itertools.product(range(len(c)), repeat=2):
            if side[i] == side[j]:
                k, near = (i, far[j]) if far[i] > far[j] else (j, far[i])
                product = (flat + near * far[k]) * beyond[:, k] - near * one.std * bell[:, k]
                value = value + jump[i] * jump[j] * product
        return Averages(value.reshape(q.shape), slope.reshape(q.shape))

    def features(self, q):
        alive = q > 0
        std = jnp.sqrt(jnp.where(alive, q, 1))
        c, jump = self._bends(q.dtype)
        h = jnp.where(alive[:, None], jnp.clip(c / std[:, None], -_FAR, _FAR), _FAR * np.sign(c))
        above = ndtr(-h)
        bell = jnp.exp(-(h**2) / 2) / math.sqrt(2 * math.pi)
        std = jnp.where(alive, std, 0)
        start = self.at_zero - float(np.sum(jump * np.maximum(-c, 0)))
        value = start + (std[:, None] * bell - c * above) @ jump
        slope = self.kinks[0].left + above @ jump
        return Features(std, value, slope, h)

    def pair(self, rows, columns, k):
        across = Features(*(a[:, None] for a in rows))
        down = Features(*(a[None] for a in columns))
        return self._pairs(across, down, k)

    def _pairs(self, a: Features, b: Features, k: Array) -> Averages:
        scale = a.std * b.std
        rho = jnp.clip(k / jnp.where(scale > 0, scale, 1), -1, 1)
        # The root has a derivative at parallel inputs too.
        whole = jnp.arctan2(rho, jnp.sqrt(jnp.maximum((1 - rho) * (1 + rho), _SMALLEST)))

        def add(sums, node):
            share, weight = node
            theta, total = whole * share, jnp.zeros_like(k)
            for i, first in enumerate(self.kinks):
                for j, second in enumerate(self.kinks):
                    total += first.jump * second.jump * _density(a.kinks[..., i], b.kinks[..., j], theta)
            total = whole * weight * total
            return (sums[0] + total, sums[1] + total * (rho - jnp.sin(theta))), None

        rule = _SHARES.astype(k.dtype), _WEIGHTS.astype(k.dtype)
        (flat, bent), _ = lax.scan(add, (jnp.zeros_like(k), jnp.zeros_like(k)), rule)
        slopes = a.slope * b.slope
        return Averages(a.value * b.value + k * slopes + scale * bent, slopes + flat)


def _density(h: Array, g: Array, theta: Array) -> Array:
    """exp(-(h^2 + g^2 - 2 h g sin) / 2 cos^2), without cancellation at right angles."""
    sine = jnp.sin(theta)
    sign = jnp.where(sine < 0, -1, 1)
    apart = (h - sign * g) ** 2 / (2 * jnp.cos(theta) ** 2)
    return jnp.exp(-apart - sign * h * g / (1 + sign * sine))


def polygon(function: Callable[[Array], Array], kinks: tuple[Kink, ...]) -> Polygon | None:
    """The law of a function that is linear between these kinks; None for any other."""
    if not kinks:
        return None
    with outside_tracing():
        far = 8 + max(abs(k.at) for k in kinks)
        z = jnp.linspace(-far, far, 257)
        value, at_zero = np.asarray(function(z)), float(function(jnp.zeros(())))
    z = np.asarray(z)
    line = kinks[0].left * z + sum(k.jump * (np.maximum(z - k.at, 0) - max(-k.at, 0.0)) for k in kinks)
    if np.abs(value - at_zero - line).max() > 1e-8 * np.abs(value).max():
        return None
    return Polygon(kinks, at_zero)
