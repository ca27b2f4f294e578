import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from quadratic import random_problem
from tolerances import assert_close


@pytest.fixture
def cubic(rng):
    """A cubic model of three inputs with five features."""
    A, B, C = (rng.normal(size=(5, *(3,) * r)) / 3 for r in (1, 1, 1))
    features = lambda M: lambda x: jnp.tanh(x @ jnp.asarray(M).T)

    def psi(x):
        f = features(B)(x)
        return jnp.einsum("nj,nk->njk", f, f)

    def Psi(x):
        f = features(C)(x)
        return jnp.einsum("nj,nk,nl->njkl", f, f, f)

    return fw.CubicModel(features(A), psi, Psi, 0.3)


@pytest.fixture
def x(rng):
    return jnp.asarray(rng.normal(size=(4, 3)))


@pytest.fixture
def W(rng):
    return jnp.asarray(rng.normal(size=(2, 5)))


def test_the_cubic_model_is_its_polynomial(cubic, x, W):
    table = cubic.at(x)
    f, g, h = np.asarray(table.phi), np.asarray(table.psi), np.asarray(table.Psi)
    expected = (
        np.einsum("nj,oj->no", f, W)
        + 0.15 * np.einsum("njk,oj,ok->no", g, W, W)
        + 0.015 * np.einsum("njkl,oj,ok,ol->no", h, W, W, W)
    )
    assert_close(cubic(W, x), expected)


def test_effective_features_are_the_derivative(cubic, x, W):
    J = jax.jacobian(lambda w: cubic(w, x))(W)
    assert_close(cubic.effective_features(W, x), jnp.einsum("noof->onf", J))
    assert_close(cubic.at(x).jacobian(W), J.reshape(8, 10))


def test_effective_and_meta_kernels_are_those_of_the_derivatives(cubic, x, W):
    J = jnp.einsum("noof->onf", jax.jacobian(lambda w: cubic(w, x))(W))
    assert_close(cubic.effective_kernel(W, x, x[:2]), jnp.einsum("onf,omf->onm", J, J[:, :2]))
    H = jax.hessian(lambda w: cubic(w[None], x)[:, 0])(W[0])
    dressed = cubic.meta_kernel(x, x[:2], x, weights=W[0]).dense()
    assert_close(dressed, jnp.einsum("njk,mj,lk->nml", H, J[0, :2], J[0]))


def test_the_update_of_a_quadratic_model_has_two_terms_and_no_remainder(rng):
    problem = random_problem(1, outputs=2)
    model, points = problem.model(0.4), np.arange(len(problem.phi))
    W, dW = (jnp.asarray(rng.normal(size=(2, 14))) for _ in range(2))
    features = model.effective_features(W, points)
    bend = 0.2 * jnp.einsum("oj,njk,ok->no", dW, problem.psi, dW)
    assert_close(model(W + dW, points), model(W, points) + jnp.einsum("onf,of->no", features, dW) + bend)
    assert_close(
        model.effective_features(W + dW, points), features + 0.4 * jnp.einsum("njk,ok->onj", problem.psi, dW)
    )


def test_epsilon_zero_and_no_meta_features_are_the_linear_model(rng):
    problem = random_problem(1)
    linear, points = fw.LinearModel(lambda i: problem.phi[i]), np.arange(len(problem.phi))
    W = jnp.asarray(rng.normal(size=(1, 14)))
    assert_close(problem.model(0.0)(W, points), linear(W, points))
    assert_close(linear.effective_kernel(W, points)[0], problem.k)
    assert not linear.meta_kernel(points).dense().any()
    assert_close(problem.model(0.7).kernel(points[:3], points), problem.k[:3])


class TestBadInput:
    def test_psi_not_symmetric(self):
        problem = random_problem(0)
        psi = problem.psi.copy()
        psi[2, 0, 1] += 0.25
        with pytest.raises(ValueError, match=r"psi must be symmetric .* changes it by 0\.25: use \(psi"):
            problem._replace(psi=psi).model(0.1).at(problem.train)

    def test_shapes(self):
        problem = random_problem(0)
        model = fw.QuadraticModel(lambda i: problem.phi[i], lambda i: problem.psi[i][:, 1:, 1:])
        with pytest.raises(
            ValueError, match=r"psi turned 6 points into shape \(6, 13, 13\); .*\(6, 14, 14\)"
        ):
            model.at(problem.train)
        with pytest.raises(ValueError, match=r"phi turned 6 points into shape \(3, 14\)"):
            fw.LinearModel(lambda i: problem.phi[:3]).at(problem.train)

    def test_values(self):
        problem = random_problem(0)
        with pytest.raises(ValueError, match="phi holds NaN"):
            fw.LinearModel(lambda i: np.nan * problem.phi[i]).at(problem.train)
