"""The predicted learning curve against kernel regression on random subsets of a real data set."""

import numpy as np
import pytest
from sklearn.datasets import load_diabetes

import finitewidth as fw
from finitewidth.course.kernel_regression.theory.ridge import ridge_regression
from finitewidth.prediction.selection.learning_curves import (
    learning_curve,
    predicted_learning_curve,
    resolution,
)
from finitewidth.statistics.wide.mercer_decomposition import mercer
from tolerances import SOLVE, assert_close

NET = fw.MLP((1, 1), "relu", 0.1, 2.0)


@pytest.fixture(scope="module")
def diabetes():
    x, y = load_diabetes(return_X_y=True, scaled=False)
    return (x - x.mean(0)) / x.std(0), ((y - y.mean()) / y.std())[:, None]


def test_diabetes_curve_is_the_average_over_random_subsets(diabetes):
    x, y = diabetes
    kernel = np.asarray(fw.kernels(NET, x).ntk)
    sizes, ridge, draws = [20, 60, 180], 2.0, 60
    curve = predicted_learning_curve(NET, x, y, sizes, ridge=ridge)
    rng = np.random.default_rng(1)
    for i, n in enumerate(sizes):
        errors = []
        for _ in range(draws):
            chosen = rng.integers(len(x), size=n)
            fit = ridge_regression(kernel[np.ix_(chosen, chosen)], y[chosen], ridge)
            test = np.mean((fit.predict(kernel[:, chosen]) - y) ** 2)
            errors.append((test, np.mean((fit.fitted - y[chosen]) ** 2)))
        mean, sem = np.mean(errors, axis=0), np.std(errors, axis=0, ddof=1) / np.sqrt(draws)
        # The theory takes eigenfunctions for Gaussian; on real data that costs a few percent.
        assert abs(mean[0] - curve.test[i]) < 4 * sem[0] + 0.04 * mean[0]
        assert abs(mean[1] - curve.train[i]) < 4 * sem[1] + 0.04 * mean[1]
    assert curve.test[0] > 1.2 * curve.test[2], "the range of sizes would show a wrong slope"


def test_gaussian_features_without_ridge(rng):
    """Features that are Gaussian make the theory exact up to 1/modes."""
    eigenvalues = 1 / np.arange(1, 301) ** 1.5
    v = rng.normal(size=(300, 1)) * np.sqrt(eigenvalues)[:, None]
    curve = learning_curve(eigenvalues, v, [40, 120], noise=0.05)
    for i, n in enumerate((40, 120)):
        errors = []
        for _ in range(60):
            psi = rng.normal(size=(n, 300))
            y = psi @ v + np.sqrt(0.05) * rng.normal(size=(n, 1))
            features = psi * np.sqrt(eigenvalues)
            weights = np.sqrt(eigenvalues)[:, None] * (features.T @ np.linalg.solve(features @ features.T, y))
            errors.append(np.sum((weights - v) ** 2) + 0.05)
        z = (np.mean(errors) - curve.test[i]) / (np.std(errors, ddof=1) / np.sqrt(60))
        assert abs(z) < 4
        assert curve.train[i] == 0


@pytest.mark.parametrize(("n", "ridge"), [(5, 0.0), (50, 1e-3), (400, 2.0)])
def test_resolution_solves_its_equation(n, ridge):
    eigenvalues = 1 / np.arange(1, 101) ** 2
    kappa = resolution(eigenvalues, n, ridge)
    assert_close(np.sum(eigenvalues / (eigenvalues + kappa)) + ridge / kappa, float(n), SOLVE)


def test_flat_spectrum_is_ordinary_least_squares():
    """p equal modes: the interpolator of n < p points misses 1 - n/p; beyond, only noise is left."""
    v = np.ones((10, 1))
    curve = learning_curve(np.ones(10), v, [4, 20], noise=0.3)
    assert_close(curve.learnt, np.stack([np.full(10, 0.4), np.ones(10)]))
    assert_close(curve.test, np.array([(10 * 0.36 + 0.3) / 0.6, 0.3 * 20 / 10]))


def test_one_hidden_mode_counts(diabetes):
    x, y = diabetes
    parts = mercer(fw.kernels(NET, x[:80]).nngp)
    by_hand = learning_curve(parts.eigenvalues, parts.coefficients(y[:80]), [10], ridge=0.1)
    direct = predicted_learning_curve(NET, x[:80], y[:80], [10], kernel="nngp", ridge=0.1)
    assert_close(direct.test, by_hand.test)


def test_bad_settings():
    with pytest.raises(ValueError, match="sizes must be positive"):
        learning_curve(np.ones(3), np.ones((3, 1)), [0])
    with pytest.raises(ValueError, match="ridge and noise must be zero or more"):
        learning_curve(np.ones(3), np.ones((3, 1)), [2], ridge=-1)
