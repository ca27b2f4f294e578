"""dNTK and ddNTK against dense derivative tensors, differences of the NTK, and one step of training."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from dense_derivatives import flatten, hessian, jacobian, third
from tolerances import DIFFERENCES, assert_close


@pytest.fixture(scope="module")
def net():
    return fw.MLP(
        hidden=(4, 3),
        activation="tanh",
        C_b=0.2,
        C_W=1.3,
        lambda_b=[0.3, 0.5, 0.7],
        lambda_W=[1.0, 2.0, 0.5],
        n_out=2,
    )


@pytest.fixture(scope="module")
def params(net):
    return net.init(jax.random.key(7), 3)


@pytest.fixture(scope="module")
def points():
    return [jax.random.normal(jax.random.key(100 + i), (n, 3)) for i, n in enumerate((2, 3, 1, 2))]


@pytest.fixture(scope="module")
def vectors(points):
    return [jax.random.normal(jax.random.key(200 + i), (len(x), 2)) for i, x in enumerate(points)]


@pytest.fixture(scope="module")
def dense(net, params, points):
    """dH, I and J from the full second and third derivatives."""
    flat = flatten(net, params)
    v = [jacobian(flat, x) * flat.rates for x in points]
    bent = [hessian(flat, x) for x in points[:2]]
    return (
        jnp.einsum("aiuv,bju,ckv->ijkabc", bent[0], v[1], v[2]),
        jnp.einsum("aiuvw,bju,ckv,dlw->ijklabcd", third(flat, points[0]), v[1], v[2], v[3]),
        jnp.einsum("aiuv,u,bjuw,ckv,dlw->ijklabcd", bent[0], flat.rates, bent[1], v[2], v[3]),
    )


def test_dntk_and_its_contractions(net, params, points, vectors, dense):
    dH, _, _ = dense
    x, u = points[:3], vectors
    assert_close(fw.empirical_dntk(net, params, *x), dH)
    assert_close(fw.empirical_dntk(net, params, *x, vectors=u[2:3]), jnp.einsum("ijkabc,ck->ijab", dH, u[2]))
    assert_close(
        fw.empirical_dntk(net, params, *x, vectors=u[1:3]), jnp.einsum("ijkabc,bj,ck->ia", dH, u[1], u[2])
    )


def test_ddntk_and_its_contractions(net, params, points, vectors, dense):
    u = vectors
    terms = {
        0: "ijklabcd->ijklabcd",
        1: "ijklabcd,dl->ijkabc",
        2: "ijklabcd,ck,dl->ijab",
        3: "ijklabcd,bj,ck,dl->ia",
    }
    for count, contraction in terms.items():
        chosen = u[4 - count :]
        found = fw.empirical_ddntk(net, params, *points, vectors=chosen)
        assert_close(found.I, jnp.einsum(contraction, dense[1], *chosen))
        assert_close(found.J, jnp.einsum(contraction, dense[2], *chosen))


def test_any_function_has_the_same_differentials_as_the_layer_products(net, params, points, vectors):
    rates = net.learning_rates(3)
    assert_close(
        fw.empirical_dntk(net.apply, params, *points[:3], rates=rates),
        fw.empirical_dntk(net, params, *points[:3]),
    )
    chosen = vectors[2:]
    a = fw.empirical_ddntk(net.apply, params, *points, vectors=chosen, rates=rates)
    b = fw.empirical_ddntk(net, params, *points, vectors=chosen)
    assert_close(a.I, b.I)
    assert_close(a.J, b.J)


def test_a_linear_model_has_no_differentials(key, points):
    net = fw.MLP(hidden=(), activation="linear")
    params = net.init(key, 3)
    assert not np.any(fw.empirical_dntk(net, params, points[0]))
    found = fw.empirical_ddntk(net, params, points[0])
    assert not np.any(found.I)
    assert not np.any(found.J)


def moved_kernel(net, params, x, residual, eta):
    """The NTK after one gradient step against the residual e = z - y."""
    pull_back = jax.vjp(lambda p: net.apply(p, x), params)[1]
    (gradient,) = pull_back(residual)
    moved = jax.tree.map(lambda p, rate, g: p - eta * rate * g, params, net.learning_rates(3), gradient)
    return fw.empirical_ntk(net, moved, x)


def test_differences_of_the_ntk_along_a_gradient_step(net, params, points, vectors):
    """dH/d eta = -(dH_12a + dH_21a) e_a and d2H/d eta2 = (I_12ab + I_21ab + 2 J_12ab) e_a e_b at eta = 0."""
    x, e = points[1], vectors[1]

    def mirror(t):
        return t.transpose(1, 0, 3, 2)

    h = 1e-3
    at = {k: moved_kernel(net, params, x, e, k * h) for k in (-2, -1, 0, 1, 2)}
    slope = (8 * (at[1] - at[-1]) - (at[2] - at[-2])) / (12 * h)
    curvature = (16 * (at[1] + at[-1]) - (at[2] + at[-2]) - 30 * at[0]) / (12 * h**2)
    d = fw.empirical_dntk(net, params, x, vectors=[e])
    dd = fw.empirical_ddntk(net, params, x, vectors=[e, e])
    assert_close(slope, -(d + mirror(d)), DIFFERENCES)
    # The second difference divides rounding errors by h^2 instead of h.
    assert_close(curvature, dd.I + mirror(dd.I) + dd.J + mirror(dd.J), DIFFERENCES)


def test_one_step_is_the_kernel_expansion_up_to_the_fourth_order(net, params, points):
    x = points[1]
    y = jnp.sin(x[:, :2])
    e = net.apply(params, x) - y
    terms = [
        net.apply(params, x).T,
        -jnp.einsum("ijab,bj->ia", fw.empirical_ntk(net, params, x), e),
        fw.empirical_dntk(net, params, x, vectors=[e, e]) / 2,
        -fw.empirical_ddntk(net, params, x, vectors=[e, e, e]).I / 6,
    ]
    etas = np.array([0.004, 0.002])
    errors = np.zeros((4, 2))
    for k, eta in enumerate(etas):
        run = fw.train(net, params, x, y, steps=1, learning_rate=float(eta))
        after = net.apply(run.params, x).T
        for order in range(4):
            partial = sum(eta**p * terms[p] for p in range(order + 1))
            errors[order, k] = float(jnp.linalg.norm(after - partial))
    orders = np.log2(errors[:, 0] / errors[:, 1])
    assert np.all(np.abs(orders - [1, 2, 3, 4]) < 0.1)


def test_wrong_vectors_are_refused(net, params, points):
    with pytest.raises(ValueError, match="3 vectors for 3 legs: leave the first leg free"):
        fw.empirical_dntk(net, params, points[0], vectors=[jnp.ones((2, 2))] * 3)
    with pytest.raises(ValueError, match=r"the vector of leg 2 has shape \(2, 1\); it must be \(2, 2\)"):
        fw.empirical_dntk(net, params, points[0], vectors=[jnp.ones((2, 1))])
