import diffrax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import finitewidth as fw
from finitewidth._base.arrays import as_matrix
from tolerances import assert_close


def squares(f, y):
    return 0.5 * jnp.sum((f - y) ** 2)


def logistic(f, y):
    return jnp.sum(jnp.log1p(jnp.exp(-y * f)))


@pytest.fixture
def kernel(rng):
    root = rng.normal(size=(6, 8))
    return root @ root.T / 8


def test_squares_follow_the_closed_form(kernel, rng):
    """At the training and at the test points, two outputs."""
    train, reach = kernel[:4, :4], kernel[4:, :4]
    y, start = rng.normal(size=(4, 2)), (rng.normal(size=(4, 2)), rng.normal(size=(2, 2)))
    run = fw.train_in_function_space(
        train, y, squares, [0, 0.5, 3], start=start, kernel_test_train=reach, rtol=1e-9, atol=1e-12
    )
    assert_close(run.train[0], start[0])
    for i, t in ((1, 0.5), (2, 3)):
        law = fw.predict_from_kernels(train, reach, None, y, fw.GradientFlow(t), initial=start)
        assert_close(run.test[i], law.mean, 1e-7)
    assert_close(run.losses, np.array([0.5 * np.sum((f - y) ** 2) for f in np.asarray(run.train)]))


def test_any_loss_agrees_with_another_solver(kernel, rng):
    y, start = np.sign(rng.normal(size=(6, 1))), rng.normal(size=(6, 1))
    slope = lambda f: -y[:, 0] / (1 + np.exp(y[:, 0] * f))
    other = solve_ivp(lambda t, f: -kernel @ slope(f), (0, 20), start[:, 0], rtol=1e-10, atol=1e-12)
    run = fw.train_in_function_space(kernel, y, logistic, [20.0], start=start, rtol=1e-9, atol=1e-12)
    assert_close(run.train[0, :, 0], other.y[:, -1], 1e-6)
    stiff = fw.train_in_function_space(
        kernel, y, logistic, [20.0], start=start, solver=diffrax.Kvaerno5(), rtol=1e-8, atol=1e-10
    )
    assert_close(stiff.train, run.train, 1e-5)


def test_pairs_of_outputs_are_one_kernel_over_points_and_outputs(rng):
    root = rng.normal(size=(2, 3, 7))
    pairs = np.einsum("aip,bjp->abij", root, root)
    y, start = rng.normal(size=(3, 2)), rng.normal(size=(3, 2))
    run = fw.train_in_function_space(pairs, y, squares, [0.3], start=start, rtol=1e-9, atol=1e-12)
    rows = lambda f: f.T.reshape(-1, 1)
    flat = fw.train_in_function_space(
        as_matrix(pairs), rows(y), squares, [0.3], start=rows(start), rtol=1e-9, atol=1e-12
    )
    assert_close(run.train[0], np.asarray(flat.train[0]).reshape(2, 3).T, 1e-7)


def test_wrong_arguments_get_a_sentence(kernel):
    ones = jnp.ones((6, 1))
    with pytest.raises(ValueError, match="at must be rising"):
        fw.train_in_function_space(kernel, ones, squares, [1, 0.5], start=ones)
    with pytest.raises(ValueError, match="loss must return one number"):
        fw.train_in_function_space(kernel, ones, lambda f, y: f - y, [1], start=ones)
    with pytest.raises(ValueError, match=r"start has shape \(5, 1\); 6 points"):
        fw.train_in_function_space(kernel, ones, squares, [1], start=ones[:5])
    with pytest.raises(ValueError, match="only there"):
        fw.train_in_function_space(kernel, ones, squares, [1], start=(ones, ones))
    with pytest.raises(ValueError, match="within max_steps=3"):
        fw.train_in_function_space(kernel, ones, squares, [9.0], start=0 * ones, max_steps=3)
