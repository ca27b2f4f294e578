"""The angle between two Gaussian preactivations, fast and safe at plus and minus one."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpy.polynomial import chebyshev

# Rounding alone moves a correlation by a few units in the last place per layer; closer to one
# than this the angle carries no information and the inputs count as parallel.
_PARALLEL_ULPS = 8

# arccos(a) / sqrt(1 - a^2) is analytic on [0, 1] with its nearest singularity at a = -1, so its Chebyshev
# series gains a factor 3 + sqrt(8) per term: these degrees reach rounding.
_RATIO_DEGREE = {"float32": 10, "float64": 22}


@functools.cache
def _ratio_polynomial(dtype_name: str) -> tuple[float, ...]:
    """Power-series coefficients, in t = 2 a - 1, of arccos(a) / sqrt(1 - a^2) for a in [0, 1]."""
    degree = _RATIO_DEGREE[dtype_name]
    t = chebyshev.chebpts1(degree + 1)
    a = (t + 1) / 2
    series = chebyshev.chebfit(t, np.arccos(a) / np.sqrt((1 - a) * (1 + a)), degree)
    return tuple(float(c) for c in chebyshev.cheb2poly(series))


def _evaluate(coefficients: tuple[float, ...], t: Float[Array, "*s"]) -> Float[Array, "*s"]:
    """A polynomial as four interleaved Horner chains, which a processor can run side by side."""
    square = t * t
    fourth = square * square
    horner = lambda powers: functools.reduce(lambda value, c: value * fourth + c, powers[::-1])
    chains = [horner(coefficients[start::4]) for start in range(4)]
    return (chains[0] + t * chains[1]) + square * (chains[2] + t * chains[3])


@jax.custom_jvp
def angle(rho: Float[Array, "*s"]) -> tuple[Float[Array, "*s"], Float[Array, "*s"]]:
    r"""$\pi - \arccos\rho$ and $\sqrt{1-\rho^2}$, with $|\rho|$ clipped to one.

    Both derivatives are infinite at $\rho = \pm 1$; there the rule returns zero, the mean of the
    two one-sided slopes of the even continuation through the end point.
    """
    magnitude = jnp.abs(rho)
    gap = 1 - magnitude
    gap = jnp.where(gap < _PARALLEL_ULPS * jnp.finfo(rho.dtype).eps, 0.0, gap).astype(rho.dtype)
    sine = jnp.sqrt(gap * (2 - gap))
    return complement(rho, sine), sine


@angle.defjvp
def _angle_jvp(primals, tangents):
    (rho,), (drho,) = primals, tangents
    away, sine = angle(rho)
    inverse_sine = jnp.where(sine > 0, 1 / jnp.where(sine > 0, sine, 1), 0)
    return (away, sine), (inverse_sine * drho, -rho * inverse_sine * drho)


# arcsin(s) / s is analytic in s^2 with its nearest singularity at one; on [0, 1/4] its Chebyshev series gains
# a factor 7 + sqrt(48) per term.
_ARCSINE_DEGREE = {"float32": 6, "float64": 12}


@functools.cache
def _arcsine_polynomial(dtype_name: str) -> tuple[float, ...]:
    """Power-series coefficients, in t = 8 z - 1, of arcsin(sqrt(z)) / sqrt(z) for z in [0, 1/4]."""
    degree = _ARCSINE_DEGREE[dtype_name]
    t = chebyshev.chebpts1(degree + 1)
    z = (t + 1) / 8
    series = chebyshev.chebfit(t, np.arcsin(np.sqrt(z)) / np.sqrt(z), degree)
    return tuple(float(c) for c in chebyshev.cheb2poly(series))


@jax.custom_jvp
def arcsine(rho: Float[Array, "*s"], square: Float[Array, "*s"]) -> Float[Array, "*s"]:
    r"""$\arcsin\rho$ where `square`, $1-\rho^2 > 0$, is known more exactly than $\rho$ itself tells it.

    Beyond one half $\arcsin\rho = \pi/2 - 2\arcsin\sqrt{(1-\rho)/2}$.
    """
    magnitude = jnp.abs(rho)
    small = magnitude < 0.5
    z = jnp.where(small, rho * rho, square / (2 + 2 * magnitude))
    found = jnp.sqrt(z) * _evaluate(_arcsine_polynomial(rho.dtype.name), 8 * z - 1)
    return jnp.copysign(jnp.where(small, found, jnp.pi / 2 - 2 * found), rho)


@arcsine.defjvp
def _arcsine_jvp(primals, tangents):
    # `square` is a function of rho, so its own tangent says nothing new.
    rho, square = primals
    return arcsine(rho, square), tangents[0] / jnp.sqrt(square)


@jax.custom_jvp
def complement(rho: Float[Array, "*s"], root: Float[Array, "*s"]) -> Float[Array, "*s"]:
    r"""$\pi - \arccos\rho$ where `root`, $\sqrt{1-\rho^2}$, is known more exactly than $\rho$ tells it.

    One polynomial for all correlations, without a root or a quotient of its own.
    """
    small = root * _evaluate(_ratio_polynomial(rho.dtype.name), 2 * jnp.abs(rho) - 1)
    return jnp.where(rho < 0, small, jnp.pi - small)


@complement.defjvp
def _complement_jvp(primals, tangents):
    # `root` is a function of rho, so its own tangent says nothing new.
    rho, root = primals
    return complement(rho, root), tangents[0] / root
