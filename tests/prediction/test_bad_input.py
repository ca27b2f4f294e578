"""One clear sentence for each kind of bad input."""

import numpy as np
import pytest

import finitewidth as fw

NET = fw.MLP((8, 8), "relu", 0.1, 2.0)


@pytest.fixture
def data(rng):
    return rng.normal(size=(9, 3)), rng.normal(size=9), rng.normal(size=(4, 3))


@pytest.fixture
def duplicated(data):
    x, y, x_test = data
    x[6] = x[2]
    return x, y, x_test


@pytest.mark.parametrize(
    ("algorithm", "remedy"),
    [
        (None, "ridge"),
        (fw.GradientFlow(), "ridge"),
        (fw.DirectOptimization(), "ridge"),
        (fw.BayesianInference(), "noise"),
    ],
)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_duplicates_are_named_and_what_helps_is_offered(duplicated, algorithm, remedy, dtype):
    x, y, x_test = duplicated
    sentence = rf"singular: training points 2 and 6 are equal. Remove one, or pass {remedy} > 0, say \d"
    with pytest.raises(ValueError, match=sentence):
        fw.predict(NET, x.astype(dtype), y, x_test, algorithm)


def test_too_little_noise_is_named(duplicated):
    x, y, x_test = duplicated
    with pytest.raises(ValueError, match=r"NNGP kernel is singular.*or pass noise above 1e-18, say \d"):
        fw.predict(NET, x, y, x_test, fw.BayesianInference(1e-18))


def test_the_offered_ridge_works(duplicated):
    x, y, x_test = duplicated
    with pytest.raises(ValueError, match="say") as refusal:
        fw.predict(NET, x, y, x_test)
    ridge = float(str(refusal.value).rstrip(".").split("say ")[1])
    law = fw.predict(NET, x, y, x, ridge=ridge)
    assert np.allclose(law.mean[[2, 6], 0], (y[2] + y[6]) / 2, atol=1e-5)
    assert np.isfinite(fw.predict(NET, x, y, x_test, fw.GradientFlow(3.0)).mean).all()
    assert np.isfinite(fw.predict(NET, x, y, x_test, fw.BayesianInference(ridge)).mean).all()


def test_duplicates_have_no_evidence_without_noise(duplicated):
    x, y, _ = duplicated
    with pytest.raises(ValueError, match=r"points 2 and 6 of x are equal.*pass a larger noise"):
        fw.evidence(NET, x, y)
    assert np.isfinite(fw.evidence(NET, x, y, 1e-3))


def test_duplicates_have_no_last_point_on_the_loss_curve(duplicated):
    problem = fw.TrainingProblem.of(NET, *duplicated)
    with pytest.raises(ValueError, match="2 and 6 are equal"):
        fw.loss_curves(problem, fw.GradientFlow(), [1.0, np.inf])


def test_a_rescaled_input_is_not_a_duplicate_but_singular_without_biases(data):
    """A homogeneous network cannot tell x from 2x."""
    x, y, x_test = data
    x[6] = 2 * x[2]
    homogeneous = fw.MLP((8, 8), "relu", 0.0, 2.0, lambda_b=0.0)
    with pytest.raises(ValueError, match="points 2 and 6 are equal to it"):
        fw.predict(homogeneous, x, y, x_test)
    assert np.isfinite(fw.predict(NET, x, y, x_test).mean).all()


def test_one_training_row_is_predicted_with_a_warning(data):
    x, y, x_test = data
    with pytest.warns(UserWarning, match="x_train has one row"):
        law = fw.predict(NET, x[:1], y[:1], x_test)
    ntk, own = fw.kernels(NET, x_test, x[:1]).ntk, fw.kernels(NET, x[:1]).ntk
    assert np.allclose(law.mean, ntk / own * y[0])


def test_more_classes_than_rows_is_predicted_with_a_warning(data):
    x, _, x_test = data
    with pytest.warns(UserWarning, match=r"more outputs \(classes\) than rows, 5 against 3"):
        law = fw.predict(NET, x[:3], np.eye(5)[:3], x_test)
    assert np.allclose(law.mean[:, 3:], 0)


def test_step_above_the_limit(data):
    limit = 2 / np.linalg.eigvalsh(fw.kernels(NET, data[0]).ntk)[-1]
    for steps in (7, np.inf):
        with pytest.raises(
            ValueError, match=f"not below 2/lambda_max={limit:.4g}: gradient descent diverges"
        ):
            fw.predict(NET, *data, fw.GradientDescent(float(1.01 * limit), steps))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda x, y, t: (x, y[:-1], t), r"y_train has shape \(8, 1\); 9 points need \(9,\)"),
        (
            lambda x, y, t: (x, y * np.nan, t),
            "y_train holds NaN or infinite values in 9 of 9 rows, first in row 0",
        ),
        (lambda x, y, t: (x, y, t[:, :2]), "x_train has 3 features and x_test has 2"),
        (lambda x, y, t: (x[:0], y[:0], t), "x_train is empty"),
        (lambda x, y, t: (x, np.array(["a"] * 9), t), "y_train is not an array of numbers"),
    ],
)
def test_shapes_and_values(data, change, sentence):
    with pytest.raises(ValueError, match=sentence):
        fw.predict(NET, *change(*data))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"order": 2}, "order must be"),
        ({"ridge": -0.1}, "ridge must be zero or more"),
        ({"initial": (np.zeros(9), np.zeros(3))}, r"initial on x_test has shape \(3, 1\)"),
        ({"initial": (np.zeros((9, 2)), np.zeros((4, 2)))}, "initial has 2 outputs and y_train has 1"),
        ({"algorithm": fw.BayesianInference(0.1), "ridge": 0.1}, "Bayesian inference takes noise only"),
    ],
)
def test_options(data, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        fw.predict(NET, *data, **options)


def test_negative_noise():
    with pytest.raises(ValueError, match="noise must be a variance, zero or more, got -1"):
        fw.BayesianInference(-1.0)
