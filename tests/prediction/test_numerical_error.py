"""What rounding makes of laws: estimates beside the errors themselves, and when predict refuses."""

import warnings

import mpmath as mp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.law.numerical_error import NumericalError, check_rounding, numerical_error
from finitewidth.prediction.methods.infinite_width.trained import pointwise_law
from finitewidth.statistics.wide.rounding import Rounding, kernel_rounding

RELU = fw.MLP((64, 64), "relu", C_b=0.1, C_W=2.0)
# How far an estimate may be from the error that it estimates, as a factor.
WITHIN = 12
# Two points that the kernel takes for equal are known better than it can know: their distance is the error.
EQUAL = 50


def exact_kernel(net, a, b):
    """NTK of a ReLU network for two points, in sixty digits."""
    dot = lambda u, v: sum(mp.mpf(float(p)) * mp.mpf(float(q)) for p, q in zip(u, v, strict=True)) / len(u)
    kernel, first, second, ntk = dot(a, b), dot(a, a), dot(b, b), mp.mpf(0)
    for depth, (C_b, C_W, lambda_b, lambda_W) in enumerate(net.layers):
        if depth:
            scale = mp.sqrt(first * second)
            angle = mp.acos(max(min(kernel / scale, mp.mpf(1)), mp.mpf(-1)))
            ntk *= (mp.pi - angle) / (2 * mp.pi)
            kernel = scale * (mp.sin(angle) + (mp.pi - angle) * mp.cos(angle)) / (2 * mp.pi)
            first, second = first / 2, second / 2
        ntk = mp.mpf(lambda_b) + mp.mpf(lambda_W) * kernel + mp.mpf(C_W) * ntk
        kernel, first, second = (mp.mpf(C_b) + mp.mpf(C_W) * k for k in (kernel, first, second))
    return ntk


def exact_mean(net, x, y, x_test, ridge):
    with mp.workdps(60):
        kernel = mp.matrix([[exact_kernel(net, a, b) for b in x] for a in x])
        coefficients = mp.lu_solve(kernel + mp.mpf(ridge) * mp.eye(len(x)), mp.matrix(y.tolist()))
        terms = [[exact_kernel(net, t, b) * c for b, c in zip(x, coefficients, strict=True)] for t in x_test]
        return np.array([float(sum(row)) for row in terms])


def rms(values):
    return float(np.sqrt(np.mean(np.square(np.asarray(values, float)))))


@pytest.fixture
def repeated(rng):
    """Six points and a seventh at a distance of 1e-9 from the first, with another target."""
    x, y, x_test = rng.normal(size=(6, 2)), rng.normal(size=7), rng.normal(size=(4, 2))
    return np.vstack([x, beside(x[0], 1e-9)]), y, x_test


def beside(point, distance):
    """A point at this distance in another direction from the origin."""
    return point + distance * np.array([-point[1], point[0]]) / np.linalg.norm(point)


@pytest.mark.parametrize("ridge", [1e-12, 1e-10])
def test_a_ridge_below_the_rounding_of_repeated_points_is_refused(repeated, ridge):
    with pytest.raises(
        ValueError, match=r"rounding leaves nothing of the mean.*pass a ridge above 1e-1.*say"
    ):
        fw.predict(RELU, *repeated, ridge=ridge)


def test_the_ridge_that_is_named_leaves_two_digits(repeated):
    with pytest.warns(UserWarning, match=r"rounding moves the mean.*a ridge above 1e-08, say \de-07"):
        rough = fw.predict(RELU, *repeated, ridge=1e-8)
    named = float(rough.numerical_error.ridge)
    law = fw.predict(RELU, *repeated, ridge=named)
    exact = exact_mean(RELU, *repeated, named)
    assert rms(law.mean[:, 0] - exact) < 0.01 * rms(exact)
    assert law.numerical_error.share < 0.01


@pytest.mark.filterwarnings("ignore:rounding moves")
@pytest.mark.parametrize(("distance", "ridge"), [(1e-9, 1e-7), (1e-9, 1e-5), (1e-7, 1e-7), (1e-5, 0.0)])
def test_estimates_beside_sixty_digits(repeated, distance, ridge):
    x, y, x_test = repeated
    x[6] = beside(x[0], distance)
    law = fw.predict(RELU, x, y, x_test, ridge=ridge)
    error = rms(law.mean[:, 0] - exact_mean(RELU, x, y, x_test, ridge))
    assert error / WITHIN < law.numerical_error.mean < error * EQUAL


@pytest.mark.parametrize(("activation", "depth"), [("tanh", 5), ("tanh", 500), ("relu", 50), ("relu", 200)])
@pytest.mark.filterwarnings("ignore:rounding moves")
def test_estimates_of_deep_networks_in_single_precision(rng, activation, depth):
    net = fw.MLP((8,) * depth, activation)
    x, y, x_test = rng.normal(size=(30, 10)), rng.normal(size=30), rng.normal(size=(10, 10))
    x, x_test = x.astype(np.float32), x_test.astype(np.float32)
    law, exact = fw.predict(net, x, y, x_test), fw.predict(net, x.astype(float), y, x_test.astype(float))
    means = rms(law.mean - exact.mean)
    assert means / WITHIN < law.numerical_error.mean < means * WITHIN
    variances = rms(np.diag(law.covariance) - np.diag(exact.covariance))
    assert variances / WITHIN < law.numerical_error.variance < variances * WITHIN
    assert exact.numerical_error.mean < 1e-6 * law.numerical_error.mean


def test_a_network_too_deep_for_single_precision_says_so(rng):
    net = fw.MLP((8,) * 500, "relu")
    x, y, x_test = rng.normal(size=(30, 10)), rng.normal(size=30), rng.normal(size=(10, 10))
    sentence = (
        r"rounding moves the mean by about 0\.\d of its size.*pass inputs of float64 or a ridge above 0, say"
    )
    with pytest.warns(UserWarning, match=sentence):
        fw.predict(net, x.astype(np.float32), y, x_test.astype(np.float32))


def test_an_offset_costs_digits(rng):
    """Inputs far from the origin are all alike; what is left of their differences is estimated."""
    x, y, x_test = rng.normal(size=(6, 2)), rng.normal(size=6), rng.normal(size=(4, 2))
    x, x_test = x + 1e4, x_test + 1e4
    law = fw.predict(RELU, x, y, x_test, ridge=1e-3)
    error = rms(law.mean[:, 0] - exact_mean(RELU, x, y, x_test, 1e-3))
    assert error / WITHIN < law.numerical_error.mean < error * WITHIN


def test_the_posterior_too(repeated):
    """Of ReLU networks the NNGP kernel is smooth where the NTK has a kink, and loses fewer digits."""
    law = fw.predict(RELU, *repeated, fw.BayesianInference(0.1))
    assert 1e-16 < law.numerical_error.share < 1e-12
    rough = fw.predict(RELU, *repeated, fw.BayesianInference(1e-12))
    assert 1e-5 < rough.numerical_error.share < 0.03
    with pytest.warns(
        UserWarning, match=r"by about 0\.1 of its size.*float64 or a noise above 1e-09, say 0\.001\."
    ):
        check_rounding(NumericalError(0.1, 0.1, 1.0, 1e-7, 1e-7, 1e-3), 1e-9, single=True, remedy="noise")


def test_ordinary_data_raise_no_alarm(rng):
    x, x_test = rng.normal(size=(60, 3)), rng.normal(size=(20, 3))
    y = np.sin(x[:, 0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for net in (RELU, fw.MLP((64,) * 3, "tanh")):
            assert fw.predict(net, x, y, x_test).numerical_error.share < 1e-6
            single = fw.predict(net, x.astype(np.float32), y, x_test.astype(np.float32), ridge=0.01)
            assert 1e-7 < single.numerical_error.share < 0.03


def test_a_mean_of_zero_is_no_alarm():
    """An odd target at the origin: the mean is zero, and its rounding nothing to warn of."""
    x = np.linspace(-1, 1, 6)[:, None]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        law = fw.predict(RELU, x, np.sin(x[:, 0]), np.zeros((1, 1)))
    assert abs(float(law.mean[0, 0])) < 1e-12
    assert law.numerical_error.share < 1e-6


def test_the_formula_against_drawn_errors(rng):
    """Errors of entries drawn as the formula says, put into the law: how mean and variance scatter."""
    n, tests, draws = 6, 3, 4000
    points = rng.normal(size=(n + tests, 4))
    points[1] = points[0] + 0.01 * rng.normal(size=4)
    whole = np.exp(-np.square(points[:, None] - points).sum(-1) / 8) * 3.0
    prior = 0.5 * whole**2
    y, ridge, rounding = rng.normal(size=(n, 2)), 0.05, Rounding(1e-6, 1e-4)
    cut = lambda kernel: (kernel[:n, :n], kernel[n:, :n], kernel[n:, n:])

    def law(kernel):
        train, reach, _ = cut(kernel)
        M = np.linalg.solve(train + ridge * np.eye(n), reach.T).T
        K, between, own = cut(prior)
        return M, M @ y, np.diag(own - 2 * M @ between.T + M @ K @ M.T)

    scatter = np.sqrt(rounding.of_entries(whole / 3.0)) * 3.0
    np.fill_diagonal(scatter, rounding.typical * 3.0)
    M, mean, variance = law(whole)
    means, variances = [], []
    for _ in range(draws):
        noise = np.triu(rng.normal(size=whole.shape) * scatter)
        moved = law(whole + noise + np.triu(noise, 1).T)
        means.append(moved[1] - mean)
        variances.append(moved[2] - variance)
    solve = lambda right: np.linalg.solve(whole[:n, :n] + ridge * np.eye(n), right)
    found = numerical_error(cut(whole), rounding, cut(prior), Rounding(0.0, 0.0), M, solve, y, mean)
    # Standard error of a root mean square of so many draws: one per cent.
    assert abs(found.mean / rms(means) - 1) < 0.05
    assert abs(found.variance / rms(variances) - 1) < 0.05


@pytest.mark.parametrize("ridge", [1e-7, 0.1])
def test_a_pointwise_law_has_the_error_of_the_whole(repeated, ridge):
    x, y, x_test = repeated
    x_test = np.vstack([x_test, x[2:4] + 0.1])
    whole = fw.predict(RELU, x, y, x_test, ridge=ridge).numerical_error
    problem = fw.TrainingProblem.in_modes(RELU, x, y, x_test)
    rounding = kernel_rounding(RELU, problem.x_train, problem.x_test)
    error = pointwise_law(problem, fw.GradientDescent(), ridge=ridge, rounding=rounding).numerical_error
    assert abs(error.mean / whole.mean - 1) < 1e-3
    # Of the training points' variances their average is taken.
    assert abs(error.variance / whole.variance - 1) < 0.3
    assert (error.entries, error.repeated) == (whole.entries, whole.repeated)


@pytest.mark.parametrize(("activation", "depth"), [("relu", 2), ("relu", 100), ("tanh", 100)])
def test_entries_of_kernels_beside_more_digits(rng, activation, depth):
    net, x = fw.MLP((8,) * depth, activation), rng.normal(size=(40, 10)).astype(np.float32)
    found, exact = fw.kernels(net, x), fw.kernels(net, x.astype(float))
    for kernel, truth, rounding in zip(found, exact, fw.kernel_rounding(net, x), strict=True):
        scale = np.sqrt(np.diag(truth))
        correlation, others = np.asarray(truth) / np.outer(scale, scale), ~np.eye(40, dtype=bool)
        error = rms((np.asarray(kernel) / np.outer(scale, scale) - correlation)[others])
        assert error / WITHIN < rounding.typical < error * WITHIN
        # What two inputs that nearly repeat each other lose must have fallen off where others are.
        assert rms(np.sqrt(rounding.of_entries(correlation))[others]) < error * WITHIN


def test_kernels_that_are_given_are_exact_to_their_last_digit(rng):
    kernel = np.ones((3, 3)) + np.diag([1e-13, 2e-13, 3e-13])
    given = fw.Kernels(kernel, kernel)
    law = fw.predict_from_kernels(given, given, given, rng.normal(size=3), ridge=0.1)
    assert 1e-17 < law.numerical_error.share < 1e-12


def test_a_law_keeps_its_error_in_a_file(rng, tmp_path):
    x, y = rng.normal(size=(5, 2)), rng.normal(size=5)
    law = fw.predict(fw.MLP((16,), "tanh"), x, y, x, ridge=0.1)
    assert fw.load(law.save(tmp_path / "law.npz")).numerical_error == law.numerical_error
