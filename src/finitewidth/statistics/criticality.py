r"""Signal propagation with depth: susceptibilities, universality classes, correlation lengths.

A small change of the preactivation variance K grows by $\chi_\parallel$ per layer, a small difference
between two inputs (and a back-propagated gradient, squared) by $\chi_\perp$. Off criticality both decay
or grow exponentially; at criticality they approach one and everything is a power of depth.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.activations import Activation, as_activation
from finitewidth.architecture import Hyperparameter
from finitewidth.critical_point import (
    CriticalPoint,
    UniversalityClass,
    critical_point,
    layer_response,
)


class Susceptibilities(NamedTuple):
    """Growth per layer of a perturbation of the variance, and of one perpendicular to it."""

    parallel: Float[Array, "*n"]
    perpendicular: Float[Array, "*n"]


class DepthExponents(NamedTuple):
    r"""Powers of depth at the critical point.

    The distance of the variance from its fixed point falls as amplitude * depth^-variance; a change
    of the variance as depth^-parallel; the difference of two inputs of equal norm and the product of
    the slopes as depth^-perpendicular; the NTK, at depth-independent learning rates, grows as depth^ntk.
    """

    variance: float
    amplitude: float
    parallel: float
    perpendicular: float
    ntk: float


class Criticality(NamedTuple):
    """The critical point of an activation; NaN where there is none."""

    universality_class: UniversalityClass
    C_b: float
    C_W: float
    K_star: float
    exponents: DepthExponents
    reason: str


def susceptibilities(
    activation: str | Activation | Callable[[Array], Array], K: Hyperparameter, C_W: Hyperparameter
) -> Susceptibilities:
    r"""$\chi_\parallel = C_W\,d\langle\sigma^2\rangle/dK$ and $\chi_\perp = C_W\langle\sigma'^2\rangle$.

    Examples
    --------
    >>> import finitewidth as fw
    >>> [round(float(chi), 6) for chi in fw.susceptibilities("tanh", K=0.1, C_W=1.0)]
    [0.716049, 0.849207]
    """
    K, C_W = (_positive(name, value) for name, value in (("K", K), ("C_W", C_W)))
    response = layer_response(as_activation(activation), K)
    return Susceptibilities(C_W * response.g_prime, C_W * response.h)


def _positive(name: str, value: Hyperparameter) -> Float[Array, "*n"]:
    array = jnp.asarray(value, dtype=float)
    if not isinstance(array, jax.core.Tracer) and not bool(jnp.all((array > 0) & jnp.isfinite(array))):
        raise ValueError(f"{name} must be finite and positive, got {value}.")
    return array


def criticality(activation: str | Activation | Callable[[Array], Array]) -> Criticality:
    """Critical initialisation, fixed point, universality class and depth exponents.

    Examples
    --------
    >>> import finitewidth as fw
    >>> point = fw.criticality("tanh")
    >>> point.universality_class, point.C_b, point.C_W
    ('K*=0', 0.0, 1.0)
    >>> round(point.exponents.amplitude, 6)      # K ~ 1 / (2 depth)
    0.5
    """
    activation = as_activation(activation)
    point = critical_point(activation)
    return Criticality(
        point.universality_class,
        point.C_b,
        point.C_W,
        point.K_star,
        _exponents(activation, point),
        point.reason,
    )


def _exponents(activation: Activation, point: CriticalPoint) -> DepthExponents:
    """Depth exponents from the flow near the fixed point.

    With D the distance from K*, one layer changes D by a D^s and the perpendicular susceptibility is
    1 + b D^(s-1). Then D = ((s-1)|a| depth)^(-1/(s-1)), which gives every other exponent.
    """
    nan = float("nan")
    if point.universality_class == "none":
        return DepthExponents(nan, nan, nan, nan, nan)
    if point.universality_class == "scale-invariant":
        return DepthExponents(0.0, nan, 0.0, 0.0, 1.0)
    if point.universality_class == "K*=0":
        side, distance, shift, h = _flow(activation, point, 1.0)
    else:
        flows = (_flow(activation, point, side) for side in (-1.0, 1.0))
        side, distance, shift, h = next(f for f in flows if f.shift[0] < 0)
    s = round(2 * np.log2(shift[0] / shift[1])) / 2
    a = _extrapolate(shift / distance**s, distance, s)
    b = _extrapolate((point.C_W * h - 1) / distance ** (s - 1), distance, s)
    rate = (s - 1) * abs(a)
    return DepthExponents(
        variance=1 / (s - 1),
        amplitude=side * rate ** (-1 / (s - 1)),
        parallel=s / (s - 1),
        perpendicular=-b / rate,
        ntk=1.0,
    )


class _Flow(NamedTuple):
    side: float  # +1 above the fixed point, -1 below
    distance: np.ndarray
    shift: np.ndarray  # change of the distance in one layer; negative where the point attracts
    h: np.ndarray


def _flow(activation: Activation, point: CriticalPoint, side: float) -> _Flow:
    distance = max(point.K_star, 1.0) * np.array([1e-3, 5e-4, 2.5e-4, 1.25e-4])
    K = point.K_star + side * distance
    response = layer_response(activation, jnp.asarray(K))
    shift = side * (point.C_b + point.C_W * np.asarray(response.g) - K)
    return _Flow(side, distance, shift, np.asarray(response.h))


def _extrapolate(values: np.ndarray, distance: np.ndarray, s: float) -> float:
    """Limit at zero distance of a series in powers of distance^(s - 1), or of distance when s = 2."""
    return float(np.polynomial.polynomial.polyfit(distance ** (s - 1), values, len(values) - 1)[0])
