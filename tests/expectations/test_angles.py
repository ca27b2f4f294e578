"""The angle of two preactivations: accurate everywhere, safe at plus and minus one."""

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest

from finitewidth.expectations.angles import angle
from tolerances import assert_close

RHO = np.concatenate(
    [np.linspace(-1, 1, 401), 1 - np.geomspace(1e-12, 1e-2, 11), np.geomspace(1e-12, 1e-2, 11) - 1]
)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_complement_and_sine(dtype):
    rho = jnp.asarray(RHO, dtype)
    complement, sine = angle(rho)
    assert complement.dtype == sine.dtype == dtype
    exact = np.asarray(rho, np.float64)
    # Within eight rounding units of one the angle is taken as zero: sqrt(2 * 8 * eps).
    floor = np.sqrt(16 * jnp.finfo(dtype).eps)
    hidden = np.abs(exact) > 1 - 8 * float(jnp.finfo(dtype).eps)
    assert_close(complement[~hidden], (np.pi - np.arccos(exact[~hidden])).astype(dtype))
    assert_close(sine[~hidden], np.sqrt((1 - exact) * (1 + exact))[~hidden].astype(dtype))
    assert (np.abs(np.pi - np.arccos(exact[hidden]) - complement[hidden]) <= floor).all()


def test_small_angles_keep_their_relative_accuracy():
    gap = np.geomspace(1e-13, 1e-2, 12)
    rho = jnp.asarray(1 - gap)
    exact = [float(mpmath.acos(mpmath.mpf(float(r)))) for r in rho]
    assert_close(angle(-rho)[0], exact, elementwise=True)
    assert_close(angle(rho)[1], np.sin(exact), elementwise=True)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_ends(dtype):
    complement, sine = angle(jnp.array([1.0, -1.0, 1.0000001, -1.0000001], dtype))
    assert_close(complement, np.array([np.pi, 0, np.pi, 0], dtype))
    assert not np.any(sine)


@pytest.mark.parametrize("rho", [-0.99, -0.4, 0.0, 0.4, 0.99])
def test_derivatives(rho):
    d_complement, d_sine = jax.jacfwd(angle)(jnp.asarray(rho))
    assert_close(d_complement, 1 / np.sqrt(1 - rho**2))
    assert_close(d_sine, -rho / np.sqrt(1 - rho**2) + 0.0)


@pytest.mark.parametrize("rho", [1.0, -1.0, 1.5])
@pytest.mark.parametrize("derivative", [jax.jacfwd, jax.jacrev])
def test_derivatives_at_the_ends_are_finite(rho, derivative):
    first = derivative(angle)(jnp.asarray(rho))
    second = derivative(derivative(angle))(jnp.asarray(rho))
    assert np.isfinite(jnp.array([*first, *second])).all()
    # The mean of the two one-sided slopes.
    assert not np.any(jnp.array(first))
