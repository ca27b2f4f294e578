import numpy as np
import pytest

from finitewidth.course.kernel_regression.theory.ridge import ridge_regression
from tolerances import assert_close


@pytest.fixture
def problem(rng):
    """Eight points with 12 features, two outputs, and four test points."""
    return rng.normal(size=(8, 12)), rng.normal(size=(8, 2)), rng.normal(size=(4, 12))


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_dual_and_primal_agree(problem, ridge):
    features, y, test = problem
    fit = ridge_regression(features @ features.T, y, ridge)
    weights = np.linalg.pinv(features.T @ features + ridge * np.eye(12), rcond=1e-12) @ features.T @ y
    assert_close(fit.predict(test @ features.T), test @ weights, 1e-10)
    assert_close(fit.fitted, features @ weights, 1e-10)
    assert_close(fit.norm_squared, np.sum(weights**2, axis=0), 1e-10)


def test_no_function_in_or_outside_the_span_does_better(problem, rng):
    features, y, _ = problem
    kernel, ridge = features @ features.T, 0.3
    fit = ridge_regression(kernel, y, ridge)
    weights = features.T @ fit.coefficients

    def loss(w):
        return np.sum((features @ w - y) ** 2) + ridge * np.sum(w**2)

    least = np.sum((fit.fitted - y) ** 2) + ridge * np.sum(fit.norm_squared)
    assert_close(loss(weights), least)
    for _ in range(20):
        assert loss(weights + 1e-3 * rng.normal(size=weights.shape)) > least
        assert loss(weights + 1e-3 * features.T @ rng.normal(size=(8, 2))) > least


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_left_out_is_the_fit_to_the_others(problem, ridge):
    features, y, _ = problem
    kernel = features @ features.T
    fit = ridge_regression(kernel, y, ridge)
    for i in range(8):
        rest = np.delete(np.arange(8), i)
        other = ridge_regression(kernel[np.ix_(rest, rest)], y[rest], ridge)
        assert_close(fit.left_out[i], other.predict(kernel[i : i + 1, rest])[0], 1e-10)


def test_degrees_of_freedom(problem):
    kernel = problem[0] @ problem[0].T
    eigenvalues = np.linalg.eigvalsh(kernel)
    fit = ridge_regression(kernel, problem[1], 0.7)
    assert_close(fit.degrees_of_freedom, np.sum(eigenvalues / (eigenvalues + 0.7)))
    assert ridge_regression(kernel, problem[1]).degrees_of_freedom == 8


def test_negative_ridge_is_refused(problem):
    with pytest.raises(ValueError, match="ridge must be zero or more"):
        ridge_regression(np.eye(8), problem[1], -0.1)
