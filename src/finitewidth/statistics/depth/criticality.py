r"""Signal propagation with depth: susceptibilities, universality classes, correlation lengths.

A small change of the preactivation variance K grows by $\chi_\parallel$ per layer, a small difference
between two inputs (and a back-propagated gradient, squared) by $\chi_\perp$. Off criticality both decay
or grow exponentially; at criticality they approach one and everything is a power of depth.
"""

from typing import NamedTuple, overload

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from finitewidth._base.arrays import Elementwise
from finitewidth._base.checks import as_numbers
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.critical_point import (
    CriticalPoint,
    UniversalityClass,
    critical_point,
    layer_response,
)
from finitewidth.architecture.dense import Hyperparameter
from finitewidth.architecture.layer import Layer
from finitewidth.statistics.depth.block_response import BlockCriticality, block_criticality, block_response


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


class Criticality(eqx.Module):
    """The critical point of an activation; NaN where there is none."""

    universality_class: UniversalityClass = eqx.field(static=True)
    C_b: float
    C_W: float
    K_star: float
    exponents: DepthExponents
    reason: str = eqx.field(static=True)


def susceptibilities(
    activation: str | Activation | Elementwise | Layer, K: Hyperparameter, C_W: Hyperparameter | None = None
) -> Susceptibilities:
    r"""$\chi_\parallel = C_W\,d\langle\sigma^2\rangle/dK$ and $\chi_\perp = C_W\langle\sigma'^2\rangle$.

    Of a layer or a block, such as a `Residual`, the derivatives of its kernels by those that enter. It has
    variances of its own, so C_W is left out.

    Examples
    --------
    >>> import finitewidth as fw
    >>> [round(float(chi), 6) for chi in fw.susceptibilities("tanh", K=0.1, C_W=1.0)]
    [0.716049, 0.849207]
    """
    if isinstance(activation, Layer):
        if C_W is not None:
            raise ValueError(f"C_W = {C_W} was given beside a block of layers, which has its own.")
        return Susceptibilities(*block_response(activation, _positive("K", K))[1:])
    if C_W is None:
        raise ValueError("susceptibilities of an activation need C_W.")
    K, C_W = (_positive(name, value) for name, value in (("K", K), ("C_W", C_W)))
    response = layer_response(as_activation(activation), K)
    return Susceptibilities(C_W * response.g_prime, C_W * response.h)


def _positive(name: str, value: Hyperparameter) -> Float[Array, "*n"]:
    array = as_numbers(name, value).astype(float)
    if isinstance(array, Tracer):
        return array
    numbers = np.asarray(array)
    if not (np.isfinite(numbers) & (numbers > 0)).all():
        raise ValueError(f"{name} must be finite and positive, got {value}.")
    return array


@overload
def criticality(activation: Layer) -> BlockCriticality: ...


@overload
def criticality(activation: str | Activation | Elementwise) -> Criticality: ...


def criticality(activation: str | Activation | Elementwise | Layer) -> "Criticality | BlockCriticality":
    """Critical initialisation, fixed point, universality class and depth exponents of an activation.

    Of a block of layers, such as a `Residual` or a `Repeat` of them: its susceptibilities, what many blocks
    do to variance and gradients, and the bias variance and branch scale that are recommended.

    Examples
    --------
    >>> import finitewidth as fw
    >>> point = fw.criticality("tanh")
    >>> point.universality_class, point.C_b, point.C_W
    ('K*=0', 0.0, 1.0)
    >>> round(point.exponents.amplitude, 6)      # K ~ 1 / (2 depth)
    0.5
    """
    if isinstance(activation, Layer):
        return block_criticality(activation)
    activation = as_activation(activation)
    point = critical_point(activation)
    return Criticality(*point[:4], exponents=_exponents(activation, point), reason=point.reason)


def _exponents(activation: Activation, point: CriticalPoint) -> DepthExponents:
    """Depth exponents from the flow near the fixed point.

    With D the distance from K*, one layer changes D by a D^s and the perpendicular susceptibility is
    1 + b D^(s-1). Then D = ((s-1)|a| depth)^(-1/(s-1)) on the side that attracts, which gives every
    other exponent.
    """
    nan = float("nan")
    if point.universality_class == "none":
        return DepthExponents(nan, nan, nan, nan, nan)
    if point.universality_class == "scale-invariant":
        return DepthExponents(0.0, nan, 0.0, 0.0, 1.0)
    at_zero = point.universality_class == "K*=0"
    found = (_flow_at_zero if at_zero else _flow_at_finite_variance)(activation, point)
    if found is None:  # straight around zero: the variance falls more slowly than any power
        return DepthExponents(0.0, nan, 0.0, 0.0, 1.0)
    s, a, b = found
    rate = (s - 1) * abs(a)
    side = -np.sign(a)
    perpendicular = -side * b / rate
    return DepthExponents(
        variance=1 / (s - 1),
        amplitude=float(side * rate ** (-1 / (s - 1))),
        parallel=s / (s - 1),
        perpendicular=float(perpendicular),
        # Every layer adds its share of order one; the first ones win where gradients grow faster.
        ntk=float(max(1.0, -perpendicular)),
    )


class _Flow(NamedTuple):
    s: float
    a: float
    b: float


def _flow_at_finite_variance(activation: Activation, point: CriticalPoint) -> _Flow:
    """a = C_W g''/2 and b = C_W h', for D positive above the fixed point."""
    K = jnp.asarray(point.K_star)
    _, slopes = jax.jvp(lambda K: layer_response(activation, K), (K,), (jnp.ones_like(K),))
    return _Flow(2.0, point.C_W * float(slopes.g_prime) / 2, point.C_W * float(slopes.h))


def _flow_at_zero(activation: Activation, point: CriticalPoint) -> _Flow | None:
    """The power s is 2 for smooth activations and 3/2 with a kink, so it is read off small variances.

    None for an activation that is straight around zero: there is nothing to read off.
    """
    K = np.array([1e-3, 5e-4, 2.5e-4, 1.25e-4])
    response = layer_response(activation, jnp.asarray(K))
    shift = point.C_W * np.asarray(response.g) + point.C_b - K
    if abs(shift[0]) <= 1e-9 * K[0]:
        return None
    s = round(2 * np.log2(shift[0] / shift[1])) / 2
    a = _extrapolate(shift / K**s, K ** (s - 1))
    b = _extrapolate((point.C_W * np.asarray(response.h) - 1) / K ** (s - 1), K ** (s - 1))
    return _Flow(s, a, b)


def _extrapolate(values: np.ndarray, distance: np.ndarray) -> float:
    """Limit at zero distance of a power series in the distance."""
    return float(np.polynomial.polynomial.polyfit(distance, values, len(values) - 1)[0])
