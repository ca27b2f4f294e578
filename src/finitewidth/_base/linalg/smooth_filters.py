r"""What training learns of a mode, written so that JAX finds its slope everywhere.

The values are those of `descent_filter` and of $(1-e^{-t\lambda})/\lambda$. Their slopes are right at
$\eta\lambda=1$ too, where one step learns a mode and a power of $|1-\eta\lambda|$ has no slope, and at
$\lambda=0$, where a quotient does not show that it has one.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

# Above this eta * lambda the powers of 1 - eta * lambda lose no digits when they are subtracted from one.
_FAST = 0.5
# Below this a power series is as exact as a quotient, whose slope would lose digits.
_SERIES, _TERMS = 0.02, 9

Number = float | int | Float[Array, ""]


def descent_residual(eigenvalues: Float[Array, "*n"], eta: Number, steps: int) -> Float[Array, "*n"]:
    r"""$(1-\eta\lambda)^T$."""
    return lax.integer_pow(1 - eta * eigenvalues, steps)


def descent_gain(eigenvalues: Float[Array, "*n"], eta: Number, steps: int) -> Float[Array, "*n"]:
    r"""$(1-(1-\eta\lambda)^T)/\lambda$; in slow modes $\eta T\,\frac{1-e^{-s}}s\,\frac s{T\eta\lambda}$.

    There $s=-T\log(1-\eta\lambda)$.
    """
    x = eta * eigenvalues
    slow = x < _FAST
    rate = _log_share(jnp.where(slow, x, 0.0))
    learnt_slowly = steps * rate * _decay_share(steps * x * rate)
    learnt_fast = (1 - descent_residual(eigenvalues, eta, steps)) / jnp.where(slow, 1.0, x)
    return eta * jnp.where(slow, learnt_slowly, learnt_fast)


def flow_gain(eigenvalues: Float[Array, "*n"], time: Number) -> Float[Array, "*n"]:
    r"""$(1-e^{-t\lambda})/\lambda$."""
    return time * _decay_share(time * eigenvalues)


def _decay_share(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    r"""$(1-e^{-x})/x$."""
    small = x < _SERIES
    near, far = jnp.where(small, x, 0.0), jnp.where(small, 1.0, x)
    return jnp.where(small, _power_series(near, lambda n: -1 / (n + 1)), -jnp.expm1(-far) / far)


def _log_share(x: Float[Array, "*n"]) -> Float[Array, "*n"]:
    r"""$-\log(1-x)/x$."""
    small = x < _SERIES
    near, far = jnp.where(small, x, 0.0), jnp.where(small, _FAST, x)
    return jnp.where(small, _power_series(near, lambda n: n / (n + 1)), -jnp.log1p(-far) / far)


def _power_series(x: Float[Array, "*n"], ratio: Callable[[int], float]) -> Float[Array, "*n"]:
    """1 + ratio(1) x (1 + ratio(2) x (1 + ...))."""
    total = jnp.ones_like(x)
    for n in range(_TERMS, 0, -1):
        total = 1 + ratio(n) * x * total
    return total
