import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.linalg

from finitewidth._base.linalg import smooth_filters
from finitewidth._base.linalg.matrix_function import divided_differences, matrix_function
from tolerances import SOLVE, assert_close


def decay(time, t):
    return jnp.exp(-time * t)


def matrix(rng, eigenvalues):
    V = np.linalg.qr(rng.normal(size=(len(eigenvalues),) * 2))[0]
    return (V * np.array(eigenvalues)) @ V.T


def symmetric(rng, n):
    A = rng.normal(size=(n, n))
    return A + A.T


@pytest.mark.parametrize(
    "eigenvalues", [(0.3, 1.0, 2.5), (1.0, 1.0, 1.0), (0.7, 0.7 + 1e-9, 2.0), (0.0, 0.0, 1.5)], ids=str
)
def test_the_derivative_is_that_of_scipys_exponential(rng, eigenvalues):
    """In the matrix by Frechet's derivative, and in the time, at equal, nearly equal and no eigenvalues."""
    A, direction = matrix(rng, eigenvalues), symmetric(rng, 3)
    exact, slope = scipy.linalg.expm_frechet(-1.3 * A, -1.3 * direction)
    moved = jax.jit(
        lambda time, A, d_time, dA: jax.jvp(
            lambda t, B: matrix_function(decay, t, B), (time, A), (d_time, dA)
        )
    )
    value, found = moved(1.3, A, 0.0, direction)
    assert_close(value, exact, SOLVE)
    assert_close(found, slope, SOLVE)
    assert_close(moved(1.3, A, 1.0, 0 * A)[1], -A @ exact, SOLVE)


def test_the_gradient_is_the_transpose_of_the_derivative(rng):
    A, direction, weight = matrix(rng, (0.5, 0.5, 2.0)), symmetric(rng, 3), symmetric(rng, 3)
    scalar = lambda B: jnp.sum(weight * matrix_function(decay, 0.8, B))
    slope = np.sum(weight * scipy.linalg.expm_frechet(-0.8 * A, -0.8 * direction)[1])
    assert_close(np.sum(np.asarray(jax.grad(scalar)(jnp.asarray(A))) * direction), slope, SOLVE)


def test_divided_differences_of_a_cube():
    """a^2 + ab + b^2, for near pairs and for distant ones."""
    t = np.array([0.4, 0.4, 0.4 * (1 + 1e-8), 0.401, 1.0, 3.0])
    a, b = t[:, None], t[None, :]
    found = divided_differences(lambda u: u**3, jnp.asarray(t))
    assert_close(found, a**2 + a * b + b**2, SOLVE, elementwise=True)


T = np.array([0.0, 1e-12, 1e-4, 0.019, 0.021, 0.3, 0.499, 0.501, 1.0, 1.7])


@pytest.mark.parametrize("steps", [1, 2, 7, 400])
def test_the_smooth_gain_of_descent_and_its_slope(steps):
    """The sum over steps of eta (1 - eta t)^s, and its derivative, at no, slow and quick modes."""
    eta, s = 1.0, np.arange(steps)
    x = 1 - eta * T[:, None]
    gain = eta * np.sum(x**s, axis=1)
    slope = -(eta**2) * np.sum(s * x ** np.maximum(s - 1, 0), axis=1)
    found = jax.jvp(
        lambda t: smooth_filters.descent_gain(t, eta, steps), (jnp.asarray(T),), (jnp.ones(len(T)),)
    )
    for each, expected in zip(found, (gain, slope), strict=True):
        assert_close(each, expected, SOLVE, scale=np.maximum(np.abs(expected), gain))


def test_the_smooth_gain_of_a_flow_and_its_slope():
    """The integral of exp(-s t) up to the time, and of its derivative, by a Gauss rule."""
    time = 2.0
    nodes, weights = np.polynomial.legendre.leggauss(30)
    s, w = time * (nodes + 1) / 2, time * weights / 2
    decayed = np.exp(-s * T[:, None])
    found = jax.jvp(lambda t: smooth_filters.flow_gain(t, time), (jnp.asarray(T),), (jnp.ones(len(T)),))
    for each, expected in zip(found, (decayed @ w, -(s * decayed) @ w), strict=True):
        assert_close(each, expected, SOLVE, elementwise=True)
