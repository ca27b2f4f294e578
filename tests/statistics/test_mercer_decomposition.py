import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.statistics.wide.mercer_decomposition import mercer
from tolerances import DISCRETISATION, SOLVE, STIFF_SOLVE, assert_close


@pytest.fixture
def points(rng):
    return rng.normal(size=(12, 3)), rng.normal(size=(5, 3))


@pytest.fixture
def ntk(points):
    net = fw.MLP((1, 1), "relu", 0.1, 2.0)
    return np.asarray(fw.kernels(net, points[0]).ntk), np.asarray(fw.kernels(net, points[1], points[0]).ntk)


def test_parts_rebuild_the_kernel_and_are_orthonormal(ntk):
    parts = mercer(ntk[0])
    assert_close(
        jnp.einsum("j,aj,bj->ab", parts.eigenvalues, parts.eigenfunctions, parts.eigenfunctions), ntk[0]
    )
    assert_close(parts.eigenfunctions.T @ parts.eigenfunctions / 12, np.eye(12))
    assert (np.diff(parts.eigenvalues) <= 0).all()


def test_extension_gives_back_the_points_and_interpolates(ntk):
    parts = mercer(ntk[0])
    assert_close(parts.extend(ntk[0]), parts.eigenfunctions)
    y = np.linspace(-1, 1, 12)[:, None]
    assert_close(
        parts.extend(ntk[1]) @ parts.coefficients(y), ntk[1] @ np.linalg.solve(ntk[0], y), STIFF_SOLVE
    )


def test_brownian_kernel_has_the_known_spectrum():
    """min(x, x') on [0, 1]: eigenvalues 1/((j - 1/2) pi)^2, eigenfunctions sqrt(2) sin((j - 1/2) pi x)."""
    x = (np.arange(600) + 0.5) / 600
    parts = mercer(np.minimum.outer(x, x), modes=4)
    j = np.arange(4) + 0.5
    assert_close(parts.eigenvalues, 1 / (j * np.pi) ** 2, DISCRETISATION)
    exact = np.sqrt(2) * np.sin(np.outer(x, j) * np.pi)
    assert_close(
        np.abs(np.sum(exact * np.asarray(parts.eigenfunctions), axis=0)) / 600, np.ones(4), DISCRETISATION
    )


def test_norm_of_the_brownian_space_is_the_energy():
    """|f|^2 = int f'^2 for f(0) = 0: one third for x^2 / 2."""
    x = (np.arange(800) + 0.5) / 800
    parts = mercer(np.minimum.outer(x, x))
    assert_close(parts.norm_squared((x**2 / 2)[:, None]), np.array([1 / 3]), 2e-3)


def test_reproducing_property(ntk):
    parts = mercer(ntk[0])
    f = np.sin(np.arange(12.0))[:, None]
    values = [parts.inner(f, ntk[0][:, i : i + 1])[0] for i in range(12)]
    assert_close(np.array(values), f[:, 0], SOLVE)
    assert_close(parts.norm_squared(ntk[0]), np.diag(ntk[0]), SOLVE)
    bound = np.sqrt(parts.norm_squared(f)[0] * np.diag(ntk[0]))
    assert (np.abs(f[:, 0]) <= bound).all()


def test_power_adds_up(ntk):
    f = np.cos(np.arange(12.0))[:, None]
    share = mercer(ntk[0]).cumulative_power(f)
    assert (np.diff(share) >= 0).all()
    assert_close(share[-1], 1.0)


def test_power_outside_the_modes_is_missing(rng):
    """Four features of nine points explain the projection of a function on them, and no more."""
    x, f = rng.normal(size=(9, 4)), rng.normal(size=(9, 2))
    share = mercer(x @ x.T).cumulative_power(f)
    fitted = x @ np.linalg.lstsq(x, f, rcond=None)[0]
    assert len(share) == 4
    assert_close(share[-1], np.sum(fitted**2) / np.sum(f**2), SOLVE)
    assert share[-1] < 0.9


def test_rounding_is_left_out_and_indefinite_refused(rng):
    x = rng.normal(size=(9, 4))
    assert len(mercer(x @ x.T).eigenvalues) == 4
    assert mercer(x @ x.T, modes=2).eigenfunctions.shape == (9, 2)
    with pytest.raises(ValueError, match="not positive semidefinite: its smallest eigenvalue is -1"):
        mercer(np.diag([1.0, 1.0, -1.0]))


@pytest.mark.usefixtures("unchecked_annotations")
def test_a_rectangle_is_refused():
    with pytest.raises(ValueError, match="must be square"):
        mercer(np.ones((2, 3)))
