r"""Gradient descent on a quadratic loss, one eigenmode at a time.

After T steps of size $\eta$ a mode with eigenvalue $\lambda$ has kept the fraction $(1-\eta\lambda)^T$ of its
residual. Its gain is what it has learnt, per unit of kernel: $(1-(1-\eta\lambda)^T)/\lambda$, which tends to
$\eta T$ as $\lambda\to0$.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

# Above this eta * lambda the powers of 1 - eta * lambda lose no digits when they are subtracted from one.
_FAST = 0.5


def descent_residual(
    eigenvalues: Float[Array, " n"], eta: float | Array, steps: float | int
) -> Float[Array, " n"]:
    r"""$(1-\eta\lambda)^T$ for a finite number T of steps."""
    factor = 1 - eta * eigenvalues
    sign = jnp.where((factor < 0) & (steps % 2 == 1), -1.0, 1.0)
    # An array as exponent: for a Python number every other number of steps would be compiled anew.
    return sign * jnp.abs(factor) ** jnp.asarray(steps, factor.dtype)


def descent_gain(
    eigenvalues: Float[Array, " n"], eta: float | Array, steps: float | int
) -> Float[Array, " n"]:
    r"""$(1-(1-\eta\lambda)^T)/\lambda$ for a finite number T of steps, without cancellation in slow modes."""
    x = eta * eigenvalues
    slow = jnp.where(x < _FAST, x, 0.0)
    small = -jnp.expm1(steps * jnp.log1p(-slow)) / jnp.where(slow > 0, slow, 1)
    small = jnp.where(slow > 0, small, steps)
    fast = (1 - descent_residual(eigenvalues, eta, steps)) / jnp.where(x < _FAST, 1, x)
    return eta * jnp.where(x < _FAST, small, fast)
