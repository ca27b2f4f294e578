"""Deep linear networks conditioned on labels: identities at extremes, importance sampling, refusals."""

import json
import pathlib

import jax
import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.special import loggamma
from scipy.stats import norm
from sklearn.linear_model import BayesianRidge
from sklearn.utils.estimator_checks import parametrize_with_checks

import finitewidth as fw
from finitewidth.estimators.deep_linear_regressor import DeepLinearRegressor
from finitewidth.prediction.methods.bayesian.deep_linear.effective_depth import (
    effective_depth,
    limiting_prior_variance,
    posterior_scale,
    posterior_scale_of_depth,
)
from finitewidth.prediction.methods.bayesian.deep_linear.interpolation import interpolate
from finitewidth.prediction.methods.bayesian.deep_linear.noisy import noisy_posterior
from finitewidth.prediction.selection.deep_linear import best_prior_variance, compare_linear_networks
from tolerances import CLOSED_FORM, SOLVE, STIFF_SOLVE, assert_close

LECTURES = json.loads((pathlib.Path(__file__).parents[1] / "reference" / "exact-laws.json").read_text())
TINY = LECTURES["bayes-posterior-perpendicular"]
NET = fw.MLP((3, 5), "linear", 0.0, 1.21)
X, Y = np.array(TINY["inputs"]["X_columns"]), np.array(TINY["inputs"]["y"])


@pytest.fixture(scope="module")
def law():
    return interpolate(NET, X, Y)


def test_evidence_and_radius_of_the_reference(law):
    assert_close(law.weights @ law.weights, TINY["thstar_norm2"])
    assert_close(np.exp(law.log_evidence), TINY["evidence"], CLOSED_FORM)
    assert_close(law.perpendicular_square, TINY["E_perp_norm2"], CLOSED_FORM)


def test_importance_sampling_of_real_matrices(law, rng):
    """Upper matrices are drawn, the first one is averaged over; weights are the labels' Gaussian density."""
    draws = 200_000
    upper = np.einsum(
        "dij,dj->di", rng.normal(size=(draws, 3, 5)) * np.sqrt(1.21 / 3), rng.normal(size=(draws, 5))
    ) * np.sqrt(1.21 / 5)  # the order of the layers does not matter for the length
    own = np.sum(upper**2, axis=1) * 1.21 / 4
    gram = X @ X.T
    density = np.exp(-Y @ np.linalg.solve(gram, Y) / (2 * own)) / (
        2 * np.pi * own * np.sqrt(np.linalg.det(gram))
    )
    assert abs(density.mean() - np.exp(law.log_evidence)) < 4 * density.std() / np.sqrt(draws)
    for power, expected in ((1, law.scale_moment(1)), (2, law.scale_moment(2))):
        value = (4 * own / 1.21**3) ** power
        error = np.std(density * (value - expected)) / density.mean() / np.sqrt(draws)
        assert abs(np.average(value, weights=density) - expected) < 4 * error


def test_no_hidden_layer_is_bayesian_linear_regression(rng):
    x, y = rng.normal(size=(3, 6)), rng.normal(size=3)
    law = interpolate(fw.MLP((), "linear", 0.0, 1.7), x, y)
    kernel = 1.7 / 6 * x @ x.T
    expected = -0.5 * (y @ np.linalg.solve(kernel, y) + np.linalg.slogdet(2 * np.pi * kernel)[1])
    assert_close(law.log_evidence, expected, SOLVE)
    assert_close(law.excess_kurtosis, 0.0, scale=1.0)
    test = rng.normal(size=(2, 6))
    cross = 1.7 / 6 * test @ x.T
    covariance = 1.7 / 6 * test @ test.T - cross @ np.linalg.solve(kernel, cross.T)
    assert_close(law.mean(test), cross @ np.linalg.solve(kernel, y), SOLVE)
    assert_close(law.covariance(test), covariance, SOLVE)
    low, high = law.interval(test, 0.9)
    assert_close((high - low) / 2, norm.ppf(0.95) * np.sqrt(np.diag(covariance)), SOLVE)


def test_wide_layers_are_no_layers(rng):
    x, y = rng.normal(size=(3, 6)), rng.normal(size=3)
    wide = interpolate(fw.MLP((10**7,), "linear", 0.0, (1.7, 1.0)), x, y)
    none = interpolate(fw.MLP((), "linear", 0.0, 1.7), x, y)
    assert_close(wide.log_evidence, none.log_evidence, 1e-5)


def test_predictions_are_one_more_label(law):
    """p(y' | y) = p(y, y') / p(y): the density of a prediction from two evidences."""
    test, outputs = np.array([[0.3, 0.2, 0.4, 1.0]]), np.array([0.7])
    both = interpolate(NET, np.concatenate([X, test]), np.concatenate([Y, outputs]))
    assert_close(law.log_density(test, outputs)[0], both.log_evidence - law.log_evidence, CLOSED_FORM)


def test_density_distribution_and_moments_belong_together(law):
    test, grid = np.array([[0.3, 0.2, 0.4, 1.0]]), np.arange(-40, 40, 0.05)
    density = np.exp(law.log_density(np.repeat(test, len(grid), axis=0), grid)) * 0.05
    mean, variance = law.mean(test)[0], law.std(test)[0] ** 2
    assert_close(density.sum(), 1.0, SOLVE)
    assert_close(density @ grid, mean, SOLVE)
    assert_close(density @ (grid - mean) ** 2, variance, STIFF_SOLVE)
    assert_close(density @ (grid - mean) ** 4 / variance**2 - 3, law.excess_kurtosis, 1e-4)
    assert_close(law.covariance(test)[0, 0], variance)
    low, high = law.interval(test, 0.8)
    assert_close(
        law.cdf(np.repeat(test, 2, axis=0), np.concatenate([low, high])), np.array([0.1, 0.9]), SOLVE
    )
    inside = density[(grid > low) & (grid < high)].sum()
    assert abs(inside - 0.8) < 0.03


def test_samples_have_the_law(law):
    test = np.array([[0.3, 0.2, 0.4, 1.0], [0.0, 0.0, 1.0, 0.0]])
    draws = 20_000
    sample = np.asarray(law.sample(jax.random.key(0), test, draws))
    error = np.sqrt((2 + law.excess_kurtosis) / draws)
    assert (np.abs(sample.mean(axis=0) - law.mean(test)) < 4 * law.std(test) / np.sqrt(draws)).all()
    assert (np.abs(sample.var(axis=0) / law.std(test) ** 2 - 1) < 4 * error).all()
    low, high = law.interval(test, 0.5)
    share = np.mean((sample > low) & (sample < high), axis=0)
    assert (np.abs(share - 0.5) < 4 * 0.5 / np.sqrt(draws)).all()


def test_labels_are_fitted_and_known(law):
    assert_close(law.mean(X), Y)
    assert_close(law.std(X), np.zeros(2), scale=1.0)
    np.testing.assert_array_equal(law.log_density(X, law.mean(X)), [np.inf, np.inf])
    np.testing.assert_array_equal(law.log_density(X, Y + 1), [-np.inf, -np.inf])


def test_a_constant_is_free(rng):
    """Moving all labels changes the constant alone; the evidence is of differences of labels."""
    x, y = rng.normal(size=(4, 6)), rng.normal(size=4)
    law, moved = (interpolate(NET, x, labels, constant=True) for labels in (y, y + 5))
    assert_close(moved.log_evidence, law.log_evidence)
    assert_close(law.mean(x), y)
    test = rng.normal(size=(2, 6))
    assert_close(moved.mean(test), law.mean(test) + 5)
    contrasts = np.linalg.qr(np.concatenate([np.ones((4, 1)), rng.normal(size=(4, 3))], axis=1))[0][:, 1:]
    assert_close(interpolate(NET, contrasts.T @ x, contrasts.T @ y).log_evidence, law.log_evidence, SOLVE)


def test_noise_that_vanishes_is_interpolation(law):
    test = np.array([[0.3, 0.2, 0.4, 1.0]])
    nearly = noisy_posterior(NET, X, Y, 1e-9)
    assert_close(nearly.log_evidence, law.log_evidence, 1e-7)
    assert_close(nearly.mean(test), law.mean(test), 1e-7)
    assert_close(nearly.std(test), law.std(test), 1e-7)
    assert_close(nearly.weights, law.weights, 1e-7)


def test_noisy_posterior_is_the_mixture_over_all_scales(rng):
    """The sampled lattice of scales that any network has is another route to the same integral."""
    x, y, test = rng.normal(size=(20, 3)), rng.normal(size=20), rng.normal(size=(4, 3))
    law = noisy_posterior(NET, x, y, 0.2)
    other = fw.predict(NET, x, y, test, fw.BayesianInference(0.2, "finite"))
    assert_close(law.log_evidence, float(fw.evidence(NET, x, y, 0.2, width="finite")), SOLVE)
    assert_close(law.mean(test), np.asarray(other.mean)[:, 0], SOLVE)
    assert_close(law.covariance(test), np.asarray(other.covariance), SOLVE)


@pytest.mark.parametrize("case", LECTURES["bayes-effective-depth"])
def test_posterior_of_large_networks(case):
    sizes = {part.split("=")[0]: float(part.split("=")[1]) for part in case.split(",")}
    expected = LECTURES["bayes-effective-depth"][case]
    if "lambda_post" in sizes:
        found = posterior_scale_of_depth(sizes["nu"], sizes["lambda_post"])
        assert_close(found, expected["s2_gaussian_saddle"], SOLVE)
    else:
        hidden = (400,) * int(sizes["L"])
        assert_close(posterior_scale(sizes["nu"], 200, hidden), expected["s2_finite_L_saddle"], SOLVE)


@pytest.mark.parametrize("nu", [0.2, 1.0, 6.0])
def test_finite_layers_tend_to_the_effective_depth(nu):
    hidden = (10**5, 3 * 10**5) * 2000
    limit = posterior_scale_of_depth(nu, effective_depth(1000, hidden))
    assert_close(posterior_scale(nu, 1000, hidden), limit, 1e-3)
    assert posterior_scale(nu, 10, ()) == 1.0
    assert_close(effective_depth(1000, hidden), 1000 * 2000 * (1e-5 + 1e-5 / 3))


@pytest.mark.parametrize("hidden", [(40,) * 3, (30, 80, 20), ()])
def test_the_best_prior_variance(rng, hidden):
    """At the best scale the evidence is flat, and near the limit of many points."""
    x, y = rng.normal(size=(60, 100)), rng.normal(size=60)
    net = fw.MLP(hidden, "linear", 0.0, 1.0)
    best = best_prior_variance(net, x, y)
    assert_close(best.C_W ** (len(hidden) + 1), best.prior_variance)
    around = [
        interpolate(fw.MLP(hidden, "linear", 0.0, best.C_W * factor), x, y).log_evidence
        for factor in (0.97, 1.0, 1.03)
    ]
    assert_close(around[1], best.log_evidence, SOLVE)
    assert around[1] > max(around[0], around[2])
    square = float(interpolate(net, x, y).weights @ interpolate(net, x, y).weights)
    assert_close(best.prior_variance, limiting_prior_variance(square, 60, 100, hidden), 6 / 60)


@pytest.mark.parametrize("hidden", [(8,), (30,) * 30, (100,) * 100, (12, 40, 9)])
def test_the_limit_of_the_best_prior_is_the_mode_of_a_product_of_chi_squares(hidden):
    """The density of log s by Fourier inversion of its characteristic function, at its maximum."""
    half = np.array(hidden) / 2
    w = np.linspace(0, 400, 40_001)
    log_cf = sum(loggamma(a + 1j * w) - loggamma(a) - 1j * w * np.log(a) for a in half)
    density = lambda y: float(np.trapezoid(np.exp(log_cf - 1j * w * y).real, w))
    middle = -(len(hidden) - 1) / np.mean(hidden)
    mode = minimize_scalar(lambda y: -density(y), bounds=(middle - 0.5, middle + 0.5), method="bounded").x
    found = np.log(limiting_prior_variance(1.0, 50, 50, hidden))
    assert abs(found + mode) < 0.3 / min(hidden) ** 2


def test_the_better_network_has_the_larger_evidence(rng):
    x, y = rng.normal(size=(30, 20)), rng.normal(size=30)
    nets = {str(depth): fw.MLP((20,) * depth, "linear", 0.0, 1.5) for depth in (0, 2, 5)}
    found = compare_linear_networks(nets, x, y, 0.5)
    values = [noisy_posterior(nets[name], x, y, 0.5).log_evidence for name in found.names]
    assert_close(found.log_evidence, np.array(values))
    assert (np.diff(found.log_evidence) <= 0).all()
    tuned = compare_linear_networks(nets, x, y, 0.5, best_prior=True)
    raised = dict(zip(tuned.names, tuned.log_evidence, strict=True))
    assert all(raised[name] >= value - 1e-6 for name, value in zip(found.names, values, strict=True))


@pytest.mark.parametrize(
    ("x", "y", "options", "sentence"),
    [
        (np.ones((5, 4)) + np.eye(5, 4), np.ones(5), {}, "5 points and 4 features: without noise"),
        (np.ones((2, 4)), np.ones(2), {}, "the 2 rows of x have rank 1"),
        (np.eye(4)[:3], np.zeros(3), {}, "y = 0 at 3 points, and a hidden layer has 3 neurons"),
        (np.eye(4)[:2], np.ones((2, 2)), {}, "y has 2 columns; the exact law is of one output"),
        (np.eye(4)[:2] * np.nan, np.ones(2), {}, "x holds NaN or infinite values in 2 rows"),
        (np.eye(4)[0], np.ones(4), {}, r"x must have shape \(points, features\)"),
        (np.eye(4), np.ones(4), {"constant": True}, None),
    ],
)  # fmt: skip
def test_what_cannot_be_conditioned_on(x, y, options, sentence):
    if sentence is None:
        assert np.isfinite(interpolate(NET, x, y + np.arange(4), **options).log_evidence)
        return
    with pytest.raises(ValueError, match=sentence):
        interpolate(NET, x, y, **options)


def test_other_wrong_calls(law):
    with pytest.raises(ValueError, match="x has 3 features; the networks were fitted to 4"):
        law.mean(np.ones((1, 3)))
    with pytest.raises(ValueError, match=r"probability must lie between 0 and 1, got 1\.5"):
        law.interval(X, 1.5)
    with pytest.raises(ValueError, match="y is zero, and the smaller the prior variance"):
        best_prior_variance(NET, np.eye(4)[:2], np.zeros(2))
    with pytest.raises(ValueError, match="noise must be a variance, zero or more, got -1"):
        best_prior_variance(NET, X, Y, -1.0)
    with pytest.raises(ValueError, match="nets is empty"):
        compare_linear_networks({}, X, Y)


@pytest.mark.filterwarnings("ignore:x_train has one row:UserWarning")
@parametrize_with_checks([DeepLinearRegressor()])
def test_contract_of_scikit_learn(estimator, check):
    check(estimator)


def test_no_hidden_layer_is_bayesian_ridge(rng):
    """Scikit-learn maximises the same evidence, its own priors on both variances switched off."""
    x = rng.normal(size=(50, 4))
    y = x @ np.array([1.0, -0.5, 0.0, 2.0]) + 0.5 * rng.normal(size=50) + 3
    ours = DeepLinearRegressor(hidden=()).fit(x, y)
    theirs = BayesianRidge(alpha_1=0, alpha_2=0, lambda_1=0, lambda_2=0, tol=1e-10, max_iter=5000).fit(x, y)
    # Theirs counts the constant as known, ours as one point less: 1/50 of the noise.
    assert_close(ours.noise_, 1 / theirs.alpha_, 0.03)
    assert_close(ours.coef_, theirs.coef_, 0.01)
    assert_close(ours.intercept_, theirs.intercept_, 0.01)


def test_regressor_is_the_posterior(rng):
    x, y, test = rng.normal(size=(5, 8)), rng.normal(size=5), rng.normal(size=(3, 8))
    model = DeepLinearRegressor(hidden=(6, 7), C_W=1.3, noise=0, fit_intercept=False).fit(x, y)
    law = interpolate(fw.MLP((6, 7), "linear", 0.0, 1.3), x, y)
    mean, std = model.predict(test, return_std=True)
    assert_close(mean, law.mean(test))
    assert_close(std, law.std(test))
    assert_close(model.predict(test, return_cov=True)[1], law.covariance(test))
    assert_close(model.predict(test), test @ model.coef_ + model.intercept_)
    assert model.log_evidence_ == law.log_evidence
    tuned = DeepLinearRegressor(hidden=(6, 7), noise=0.3).fit(x, y)
    assert tuned.noise_ == 0.3
    best = best_prior_variance(fw.MLP((6, 7), "linear", 0.0, 1.0), x, y, 0.3, constant=True)
    assert_close(tuned.C_W_, best.C_W)
    for wrong, sentence in (
        ({"noise": -1}, 'noise must be "auto" or a variance'),
        ({"C_W": 0}, "C_W must be a pos"),
    ):
        with pytest.raises(ValueError, match=sentence):
            DeepLinearRegressor(**wrong).fit(x, y)
