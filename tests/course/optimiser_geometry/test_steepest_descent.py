"""Steps under norms against a convex solver, and what is refused."""

import cvxpy as cp
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth._base.linalg.dual_norms import dual_pair, norm_of
from finitewidth._base.linalg.polar import newton_schulz, polar_factor
from finitewidth.course.optimiser_geometry.networks.steepest_descent import layer_norms, steepest_descent
from finitewidth.course.optimiser_geometry.theory.steepest_descent import (
    newton_schulz_steps,
    newton_schulz_values,
    steepest_step,
)


@pytest.mark.parametrize("across", ["sum", "max"])
def test_steps_of_several_layers_minimise_the_model(across, rng):
    weight, bias, a = rng.normal(size=(3, 2)), rng.normal(size=3), 0.3
    found = steepest_step({"b": bias, "w": weight}, {"b": "linf", "w": "spectral"}, a, across=across)
    d, e = cp.Variable((3, 2)), cp.Variable(3)
    sizes = cp.sigma_max(d), cp.norm(e, "inf")
    penalty = (
        sum(cp.square(size) for size in sizes) if across == "sum" else cp.square(cp.maximum(*sizes))
    ) / (2 * a)
    problem = cp.Problem(cp.Minimize(cp.sum(cp.multiply(weight, d)) + bias @ e + penalty))
    problem.solve(solver=cp.CLARABEL)
    np.testing.assert_allclose(found.value, problem.value, rtol=1e-6)
    np.testing.assert_allclose(found.step["w"], d.value, atol=1e-3)
    np.testing.assert_allclose(found.step["b"], e.value, atol=1e-3)


@pytest.mark.parametrize("dual_factor", [False, True])
@pytest.mark.parametrize("norm", ["l2", "linf", "l1", "spectral"])
def test_the_optimiser_moves_by_its_rate_or_by_the_steepest_step(norm, dual_factor, rng):
    gradient = jnp.asarray(rng.normal(size=(4, 3)))
    optimiser = steepest_descent(0.1, norm, dual_factor=dual_factor)
    step = optimiser.update(gradient, optimiser.init(gradient))[0]
    if dual_factor:
        np.testing.assert_allclose(step, steepest_step(gradient, norm, 0.1).step, atol=1e-14)
    else:
        np.testing.assert_allclose(norm_of(step, norm), 0.1)


def test_newton_schulz_steps_are_close_to_the_orthogonal_ones(rng):
    gradient = jnp.asarray(rng.normal(size=(4, 9)))
    svd, fast = (
        steepest_descent(1.0, "spectral", orthogonalise=how).update(gradient, ())[0]
        for how in ("svd", "newton-schulz")
    )
    singular = np.linalg.svd(fast, compute_uv=False)
    start = np.linalg.svd(gradient / jnp.linalg.norm(gradient), compute_uv=False)
    np.testing.assert_allclose(np.sort(singular), np.sort(newton_schulz_values(start, 5)), rtol=1e-10)
    assert np.vdot(svd, fast) / np.linalg.norm(svd) / np.linalg.norm(fast) > 0.95
    np.testing.assert_allclose(newton_schulz(gradient.T), newton_schulz(gradient).T, rtol=1e-10)


def test_directions_of_no_gradient_do_not_move(rng):
    """A matrix of rank one has one direction; the others, which rounding would choose, stay."""
    u, v = rng.normal(size=5), rng.normal(size=3)
    expected = np.outer(u, v) / np.linalg.norm(u) / np.linalg.norm(v)
    np.testing.assert_allclose(polar_factor(np.outer(u, v)), expected, atol=1e-12)
    pair = dual_pair(np.outer(u, v), "spectral")
    np.testing.assert_allclose(pair.dual_norm, np.linalg.norm(u) * np.linalg.norm(v))


WRONG = {
    "a vector for a spectral norm": (
        lambda: steepest_step(jnp.ones(3), "spectral"),
        "gradient has shape (3,); a spectral norm needs a matrix, an array with two axes.",
    ),
    "a bias for a spectral norm": (
        lambda: steepest_descent(0.1, "spectral").init({"b": jnp.ones(3)}),
        "params['b'] has shape (3,); a spectral norm needs a matrix, an array with two axes.",
    ),
    "an unknown norm": (
        lambda: steepest_descent(0.1, "l3").init(jnp.ones(3)),
        "unknown norm 'l3'. Known: l2, linf, l1, spectral.",
    ),
    "a negative rate": (
        lambda: steepest_descent(-0.1),
        "learning_rate must be a positive number, got -0.1.",
    ),
    "norms for other layers": (
        lambda: steepest_descent(0.1, {"b": "l2"}).init({"w": jnp.ones(3)}),
        "give one name, or one per leaf.",
    ),
    "another sum of layers": (
        lambda: steepest_step(jnp.ones(3), "l2", across="mean"),
        "across must be one of 'sum', 'max', got 'mean'.",
    ),
    "a singular value above one": (
        lambda: newton_schulz_steps(2.0),
        "smallest must lie between 0 and 1: a singular value over the Frobenius norm, got 2.0.",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_calls_get_one_sentence(name):
    call, sentence = WRONG[name]
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        call()
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)


def test_layer_norms_take_matrices_apart():
    tree = {"w": jnp.ones((2, 2)), "b": jnp.ones(2)}
    assert layer_norms(tree, "l2", "l1") == {"w": "l2", "b": "l1"}
