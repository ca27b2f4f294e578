r"""Where a neuron passes signals of every depth: its critical point.

For preactivation variance K, one layer maps $K \mapsto C_b + C_W\,g(K)$ with
$g(K)=\langle\sigma^2\rangle_K$. A perturbation of the variance grows by
$\chi_\parallel = C_W\,g'(K)$, one perpendicular to it (the difference of two inputs, or a gradient)
by $\chi_\perp = C_W\,h(K)$ with $h(K)=\langle\sigma'^2\rangle_K$. Criticality asks for a fixed point
with both equal to one; since $g'-h=\langle\sigma\sigma''\rangle$, that is a condition on K alone.
"""

import functools
import math
from collections.abc import Iterator
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.optimize import root_scalar

from finitewidth._base.tracing import outside_tracing
from finitewidth.architecture.activations import Activation
from finitewidth.expectations.kinked.kinks import evaluate

UniversalityClass = Literal["scale-invariant", "K*=0", "half-stable", "none"]

_GRID = np.geomspace(1e-6, 1e3, 181)
_SMALL = 40  # where the grid is at 1e-4
_SAME = 1e-9


class CriticalPoint(NamedTuple):
    """Critical initialisation of an activation; numbers are NaN when there is none."""

    universality_class: UniversalityClass
    C_b: float
    C_W: float
    K_star: float
    reason: str

    @property
    def exists(self) -> bool:
        return self.universality_class != "none"


class LayerResponse(NamedTuple):
    """g(K) = <sigma^2>, g'(K) and h(K) = <sigma'^2>: one layer's answer to a variance K."""

    g: Float[Array, "*n"]
    g_prime: Float[Array, "*n"]
    h: Float[Array, "*n"]


@eqx.filter_jit
def layer_response(activation: Activation, K: Float[Array, "*n"]) -> LayerResponse:
    """Averages that decide about the fixed points of one layer, at every variance in K."""
    law = activation.law()
    (g, h), (g_prime, _) = jax.jvp(law.moments, (K,), (jnp.ones_like(K),))
    return LayerResponse(g, g_prime, h)


@functools.lru_cache(maxsize=256)
def critical_point(activation: Activation) -> CriticalPoint:
    """Find the critical (C_b, C_W), the fixed point K* and the universality class."""
    with outside_tracing():
        return _find(activation)


def critical_variances(activation: Activation) -> tuple[float, float]:
    """C_b and C_W of the critical point; refuses an activation that has none."""
    critical = critical_point(activation)
    if not critical.exists:
        raise ValueError(
            f"activation {activation.name!r} has no critical point ({critical.reason}): pass C_b and C_W."
        )
    return critical.C_b, critical.C_W


def _find(activation: Activation) -> CriticalPoint:
    g, g_prime, h = (np.asarray(a) for a in layer_response(activation, jnp.asarray(_GRID)))
    if not (h > 0).all():
        return _none("its slope vanishes almost everywhere, so gradients do not pass")
    if np.ptp(h) <= _SAME * h[0] and np.ptp(g / _GRID) <= _SAME * h[0]:
        return CriticalPoint("scale-invariant", 0.0, float(1 / h[0]), float("nan"), "any K* is fixed")
    imbalance = g_prime / h - 1
    candidates = [*_at_zero(activation, imbalance[0], g), *_at_finite_variance(activation, imbalance)]
    for candidate in candidates:
        if candidate.C_b >= 0:
            return candidate
    if candidates:
        K_star, C_b = candidates[0].K_star, candidates[0].C_b
        return _none(f"at K* = {K_star:.4g} it would need the bias variance C_b = {C_b:.4g} < 0")
    side = "exceeds" if np.median(imbalance) > 0 else "stays below"
    return _none(f"chi_parallel {side} chi_perp at every variance")


def _at_zero(
    activation: Activation, imbalance: float, g: Float[np.ndarray, " grid"]
) -> Iterator[CriticalPoint]:
    """K* = 0, where both susceptibilities agree and the variance shrinks towards it from above.

    An activation that is straight around zero, such as hard tanh, keeps small variances; then the first
    variance that it does not keep must shrink.
    """
    value, slope = (np.asarray(a) for a in evaluate(activation.function, jnp.array([1e-30, -1e-30, 0.0])))
    h_zero = float(np.mean(slope[:2] ** 2))
    if h_zero == 0 or abs(imbalance) > 0.1:
        return
    C_W = 1 / h_zero
    C_b = -C_W * float(value[2]) ** 2
    growth = (C_b + C_W * g)[_SMALL:] / _GRID[_SMALL:] - 1
    moved = growth[np.abs(growth) > _SAME]
    if len(moved) and moved[0] < 0:
        kept = abs(growth[0]) <= _SAME
        decays = "the variance decays as a power of depth"
        words = "small variances stay, larger ones decay" if kept else decays
        yield CriticalPoint("K*=0", C_b + 0.0, C_W, 0.0, words)


def _at_finite_variance(activation: Activation, imbalance: np.ndarray) -> Iterator[CriticalPoint]:
    """K* > 0, where <sigma sigma''> changes sign."""

    def imbalance_at(log_K: float) -> float:
        response = layer_response(activation, jnp.asarray(np.exp(log_K)))
        return float(response.g_prime / response.h) - 1

    log_grid = np.log(_GRID)
    resolved = np.abs(imbalance) > 1e-9
    for i in np.flatnonzero((np.diff(np.sign(imbalance)) != 0) & resolved[:-1] & resolved[1:]):
        crossing = root_scalar(imbalance_at, bracket=log_grid[i : i + 2], xtol=1e-14)
        K_star = math.exp(crossing.root)
        response = layer_response(activation, jnp.asarray(K_star))
        C_W = float(1 / response.h)
        C_b = K_star - C_W * float(response.g)
        yield CriticalPoint("half-stable", C_b, C_W, K_star, "the variance reaches K* from one side only")


def _none(reason: str) -> CriticalPoint:
    nan = float("nan")
    return CriticalPoint("none", nan, nan, nan, reason)
