r"""Gradient descent on a quadratic loss, one eigenmode at a time.

After T steps of size $\eta$ a mode with eigenvalue $\lambda$ has kept the fraction $(1-\eta\lambda)^T$ of its
residual. Its gain is what it has learnt, per unit of kernel: $(1-(1-\eta\lambda)^T)/\lambda$, which tends to
$\eta T$ as $\lambda\to0$. Arrays of NumPy are answered by NumPy, arrays of JAX by JAX.
"""

from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray

# Above this eta * lambda the powers of 1 - eta * lambda lose no digits when they are subtracted from one.
_FAST = 0.5


def descent_residual(
    eigenvalues: Float[AnyArray, " n"], eta: float | Array, steps: float | int
) -> Float[AnyArray, " n"]:
    r"""$(1-\eta\lambda)^T$ for a finite number T of steps."""
    numpy = eigenvalues.__array_namespace__()
    factor = 1 - eta * eigenvalues
    sign = numpy.where((factor < 0) & (steps % 2 == 1), -1.0, 1.0)
    # An array as exponent: for a Python number every other number of steps would be compiled anew.
    return sign * numpy.abs(factor) ** numpy.asarray(steps, dtype=factor.dtype)


def descent_gain(
    eigenvalues: Float[AnyArray, " n"], eta: float | Array, steps: float | int
) -> Float[AnyArray, " n"]:
    r"""$(1-(1-\eta\lambda)^T)/\lambda$ for a finite number T of steps, without cancellation in slow modes."""
    numpy = eigenvalues.__array_namespace__()
    x = eta * eigenvalues
    slow = numpy.where(x < _FAST, x, 0.0)
    small = -numpy.expm1(steps * numpy.log1p(-slow)) / numpy.where(slow > 0, slow, 1)
    small = numpy.where(slow > 0, small, steps)
    fast = (1 - descent_residual(eigenvalues, eta, steps)) / numpy.where(x < _FAST, 1, x)
    return eta * numpy.where(x < _FAST, small, fast)
