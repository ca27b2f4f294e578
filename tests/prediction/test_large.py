"""The solvers of many rows against the direct one, the switch between them, and what they refuse."""

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.law.class_probabilities import label_noise
from finitewidth.prediction.methods.infinite_width.ridge import held_out
from finitewidth.prediction.methods.large import budget, subset, system
from finitewidth.prediction.methods.large.predict import predict_large
from finitewidth.prediction.problem.leave_one_out import LeftOut

NET = fw.MLP((1, 1), "relu", 0.1, 2.0)


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(260, 4))
    y = np.stack([np.sin(x[:, 0]), x[:, 1] * x[:, 2]], axis=1) + 0.1 * rng.normal(size=(260, 2))
    return x, y, rng.normal(size=(90, 4))


@pytest.fixture(scope="module")
def laws(data, tmp_path_factory):
    store = tmp_path_factory.mktemp("tiles") / "k"
    fit = predict_large(
        NET, *data, governed="ntk", ridge=0.05, method="iterative", why="asked", memory=10**9, store=store,
        tolerance=1e-4, leave_out=True,
    )  # fmt: skip
    return fit, fw.predict(NET, *data, ridge=0.05), store


def test_iterative_means_are_within_the_certificate(laws):
    fit, direct, _ = laws
    solve = fit.law.solve
    assert solve.residual <= 1e-4
    assert solve.converged
    error = np.abs(np.asarray(fit.law.mean) - np.asarray(direct.mean))[fit.law.rows].max()
    # Beside the residual there is the rounding of test kernels in single precision.
    assert error <= solve.bound + 1e-4
    assert solve.bound < 0.05


def test_variances_of_some_rows(laws):
    fit, direct, _ = laws
    assert len(fit.law.rows) == 64
    np.testing.assert_allclose(
        fit.law.variance, np.diag(np.asarray(direct.covariance))[fit.law.rows], rtol=2e-2
    )
    others = np.setdiff1d(np.arange(90), fit.law.rows)
    std = np.asarray(fit.law.std)
    np.testing.assert_allclose(std[others] ** 2, fit.law.variance.mean())
    np.testing.assert_allclose(std[fit.law.rows] ** 2, fit.law.variance)
    with pytest.raises(AttributeError, match="no covariance of all test points"):
        fit.law.covariance  # noqa: B018
    with pytest.raises(TypeError, match=r'law has no covariance.*fewer rows, or of solver="direct"'):
        fw.verify(fit.law)


def test_left_out_rows_are_those_of_the_closed_form(laws, data):
    fit, direct, _ = laws
    exact = held_out(direct.provenance.problem, fw.GradientDescent(), 0.05)
    assert len(fit.held) == 128
    np.testing.assert_allclose(fit.left_out.mean, exact.mean[fit.held], atol=2e-3)
    np.testing.assert_allclose(fit.left_out.variance, exact.variance[fit.held], rtol=2e-2)


def test_leading_modes_are_those_of_the_kernel(laws):
    fit, direct, _ = laws
    values, power = direct.provenance.problem.diagonalised().modes.cumulative_power(
        direct.provenance.problem.y
    )
    np.testing.assert_allclose(fit.eigenvalues[:3], values[:3], rtol=0.05)
    np.testing.assert_allclose(fit.power[:3], power[:3], atol=0.05)


def test_double_precision_and_bayesian_inference(data):
    noise = 1e-4
    direct = fw.predict(NET, *data, fw.BayesianInference(noise))
    large = fw.predict(NET, *data, fw.BayesianInference(noise), solver="iterative")
    assert large.solve.precision.startswith("float64")
    assert large.solve.tiles.startswith("in ")
    error = np.abs(np.asarray(large.mean) - np.asarray(direct.mean))[large.rows].max()
    assert error <= large.solve.bound
    np.testing.assert_allclose(large.variance, np.diag(np.asarray(direct.covariance))[large.rows], rtol=1e-2)


def test_tiles_computed_in_every_sweep(data, laws, monkeypatch):
    monkeypatch.setattr(
        "finitewidth.prediction.methods.large.system.shutil.disk_usage",
        lambda path: type("Disk", (), {"free": 0}),
    )
    law = fw.predict(NET, *data, ridge=0.05, solver="iterative")
    assert law.solve.tiles == "computed in every sweep"
    np.testing.assert_allclose(np.asarray(law.mean), np.asarray(laws[0].law.mean), atol=1e-4)


def test_nystrom_of_all_rows_is_exact_and_of_some_is_named(data, laws, monkeypatch):
    law = fw.predict(NET, *data, ridge=0.05, solver="nystrom")
    assert law.solve.method == "nystrom"
    assert np.isnan(law.solve.bound)
    assert law.solve.rank == 250
    # 250 of 260 columns leave little.
    assert np.abs(np.asarray(law.mean) - np.asarray(laws[1].mean)).max() < 0.1
    monkeypatch.setattr(budget, "_LEAST_RANK", 20)
    rough = fw.predict(NET, *data, ridge=0.05, solver="nystrom")
    assert rough.solve.rank == 26
    assert np.abs(np.asarray(rough.mean) - np.asarray(laws[1].mean)).max() > 0.1


def test_the_switch_goes_by_bytes(data):
    x, y, x_test = data
    assert budget.chosen_solver("auto", 1000, 100, budget.direct_bytes(1000, 100))[0] == "direct"
    name, why = budget.chosen_solver("auto", 1000, 100, budget.direct_bytes(1000, 100) - 1)
    assert name == "iterative"
    assert "would take 59.4 MB of 59.4 MB" in why
    assert budget.chosen_solver("direct", 1000, 100, None) == ("direct", "as asked")
    with pytest.raises(MemoryError, match=r"needs 59\.4 MB for 1,000 training and 100 test rows"):
        budget.chosen_solver("direct", 1000, 100, budget.direct_bytes(1000, 100) - 1)
    with pytest.raises(
        ValueError, match="solver must be one of auto, direct, iterative, nystrom, got 'fast'"
    ):
        fw.predict(NET, x, y, x_test, solver="fast")
    with pytest.raises(ValueError, match="memory must be a number of bytes above zero"):
        fw.predict(NET, x, y, x_test, memory=-1)


def test_a_bound_on_memory_lowers_the_rank_and_then_refuses():
    full = budget.iterative_budget(60_000, 784, 200, 4, 2, 10**10)
    assert (full.rank, full.tile) == (2000, 2048)
    tight = budget.iterative_budget(60_000, 784, 200, 4, 2, 1_900_000_000)
    assert 250 <= tight.rank < 2000
    with pytest.raises(
        MemoryError, match=r"60,000 rows need 1\.\d+ GB of memory beside their kernels, and the"
    ):
        budget.iterative_budget(60_000, 784, 200, 4, 2, 10**9)
    assert 10**7 < budget.available_bytes() < 10**13


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"order": 1}, "order=1 needs kernels in memory"),
        ({"algorithm": fw.GradientDescent(steps=5)}, "training that stops before its end"),
        ({"initial": lambda x: x[:, :2]}, "a given start"),
        ({"algorithm": fw.BayesianInference(0.1, "finite")}, 'width="finite"'),
    ],
)
def test_what_needs_kernels_in_memory_is_refused_at_size(data, options, words):
    with pytest.raises(ValueError, match=words):
        fw.predict(NET, *data, solver="iterative", **options)
    problem = fw.TrainingProblem.of(NET, *data)
    with pytest.raises(ValueError, match="holds its kernels"):
        fw.predict(problem, solver="iterative")


def test_images(rng):
    x, x_test = rng.normal(size=(40, 3, 3, 2)), rng.normal(size=(7, 3, 3, 2))
    y, net = x[:, 0, 0, :1] * x[:, 1, 1, 1:], fw.ConvNet((1,), (3, 3), "relu", head="pool")
    direct = fw.predict(net, x, y, x_test, ridge=0.05)
    large = fw.predict(net, x, y, x_test, ridge=0.05, solver="iterative")
    np.testing.assert_allclose(large.mean, direct.mean, atol=1e-4 + large.solve.bound)
    np.testing.assert_allclose(large.variance, np.diag(direct.covariance)[large.rows], rtol=1e-2)


def test_estimators_switch_to_tiles_and_agree_with_the_direct_ones(data, tmp_path, monkeypatch):
    x, y, x_test = data
    settings = {"depth": 3, "ridge": 0.05}
    direct = fw.estimators.NTKRegressor(**settings).fit(x, y)
    monkeypatch.setattr(budget, "_MATRICES", 40)
    many = fw.estimators.NTKRegressor(**settings, memory=10**7, store=tmp_path / "k").fit(x, y)
    assert many.law_.solve.method == "iterative"
    assert "would take" in many.law_.solve.why
    np.testing.assert_allclose(many.predict(x_test), direct.predict(x_test), atol=2e-3)
    _, std = many.predict(x_test, return_std=True)
    np.testing.assert_allclose(std, direct.predict(x_test, return_std=True)[1], rtol=1e-2)
    with pytest.raises(ValueError, match=r"covariances and samples of networks need their kernels in memory"):
        many.sample_y(x_test)
    with pytest.raises(ValueError, match="training that stops before its end needs kernels in memory"):
        many.set_params(algorithm=fw.GradientFlow(1.0)).fit(x, y)


def test_classifiers_switch_to_tiles(data):
    x, y, x_test = data
    labels = (y[:, 0] > 0).astype(int)
    for kind in (fw.estimators.NTKClassifier, fw.estimators.NNGPClassifier):
        strength = {"ridge": 0.05} if kind is fw.estimators.NTKClassifier else {"noise": "auto"}
        direct = kind(**strength).fit(x, labels)
        many = kind(**strength, solver="iterative").fit(x, labels)
        if "noise" in strength:
            # All rows are fewer than those that a noise is chosen on.
            assert many.noise_ == pytest.approx(direct.noise_, rel=1e-6)
        # The noise is fitted to 128 of the 260 rows, left out one at a time.
        held, left_out = many.law_.held, direct.law_.left_out()
        exact = label_noise(LeftOut(left_out.mean[held], left_out.variance[held]), labels[held]).variance
        assert many.label_noise_ == pytest.approx(exact, rel=0.05)
        many.label_noise_ = direct.label_noise_
        np.testing.assert_allclose(many.predict_proba(x_test), direct.predict_proba(x_test), atol=0.01)
    rough = fw.estimators.NTKClassifier(solver="nystrom", ridge=0.05).fit(x, labels)
    assert np.mean(rough.predict(x_test) == direct.predict(x_test)) > 0.9
    with pytest.raises(ValueError, match='solver="nystrom" has means only'):
        rough.predict_proba(x_test)


@pytest.mark.parametrize("points", [2, 90])
def test_variances_of_few_and_of_many_points(data, laws, monkeypatch, points):
    """Few by the preconditioner; many, 90 for 260 rows, by a factor of the kernel."""
    x, _, x_test = data
    made = []
    real = system.tiled_cholesky
    monkeypatch.setattr(system, "tiled_cholesky", lambda *a, **k: made.append(1) or real(*a, **k))
    with system.LargeSystem(NET, x, "ntk", 0.05, outputs=90, memory=10**9) as opened:
        found = opened.variances_at(x_test[:points])
    np.testing.assert_allclose(found, np.diag(np.asarray(laws[1].covariance))[:points], rtol=1e-2)
    assert len(made) == (points > 2)


@pytest.mark.parametrize(
    ("losses", "expected"),
    [
        ([0.0, 1e-4, 1e-3, 1.0], 1),
        ([0.0, 1e-3, 1.9e-3, 1.0], 1),
        ([0.0, 3e-3, 4e-3, 1.0], 0),
        ([1.0, 1e-3, 1e-4, 0.0], 3),
        ([1.0, 1e-3, 0.0, 1e-3], 2),
    ],
)
def test_a_ridge_for_many_rows_is_small_and_lets_tiles_be_single(losses, expected):
    """Losses count that differ by a tenth of what counts for few rows; single precision counts for more."""
    ridges = np.array([1e-5, 3.2e-4, 1e-2, 0.1])
    assert subset.smallest_of_the_best(3e-4, ridges, np.array(losses)) == expected
