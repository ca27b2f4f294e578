import math

import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.methods.infinite_width import curves
from tolerances import SOLVE, assert_close

NET = fw.MLP((16, 16), "relu", 0.2, 1.8, 0.5, 1.2)


@pytest.fixture
def problem(rng):
    return fw.TrainingProblem.of(
        NET, rng.normal(size=(7, 3)), rng.normal(size=(7, 2)), rng.normal(size=(5, 3))
    )


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("start", [None, lambda x: jnp.stack([x[:, 0], x[:, 1] ** 2], axis=1)])
@pytest.mark.parametrize(
    ("algorithm", "at"),
    [(fw.GradientDescent(0.05), [0, 1, 6, math.inf]), (fw.GradientFlow(), [0, 0.01, 0.3, 5.0])],
)
def test_curves_are_the_expected_loss_of_the_law_at_every_time(rng, problem, algorithm, at, start, ridge):
    y_test = rng.normal(size=(5, 2))
    found = fw.loss_curves(problem, algorithm, at, y_test, initial=start, ridge=ridge)
    x, y = problem.x_train, problem.y
    for i, t in enumerate(at):
        stopped = algorithm.stopped(t)
        for points, target, curve in ((problem.x_test, y_test, found.test), (x, y, found.train)):
            law = fw.predict(NET, x, y, points, stopped, initial=start, ridge=ridge)
            assert_close(curve[i] + 1, float(law.expected_loss(jnp.asarray(target))) / len(target) + 1, SOLVE)


@pytest.mark.parametrize("algorithm", [fw.GradientFlow(2.0), fw.GradientDescent()])
def test_a_ridge_may_be_an_array_of_one_known_number(problem, algorithm):
    number, array = 0.3, jnp.asarray(0.3)
    laws = [fw.predict(problem, algorithm=algorithm, ridge=ridge) for ridge in (number, array)]
    curves = [fw.loss_curves(problem, algorithm, [0, 3], ridge=ridge) for ridge in (number, array)]
    np.testing.assert_array_equal(laws[0].mean, laws[1].mean)
    np.testing.assert_array_equal(curves[0].train, curves[1].train)


def test_the_form_of_the_test_loss_is_that_of_all_pairs_of_modes(rng, problem, monkeypatch):
    """Three rows of modes at a time, those above the diagonal alone, against all of them at once."""
    y_test, steps = rng.normal(size=(5, 2)), [0, 1, 6, math.inf]
    whole = fw.loss_curves(problem, fw.GradientDescent(0.05), steps, y_test, ridge=0.3)
    monkeypatch.setattr(curves, "_ROWS", 3)
    again = fw.loss_curves(problem, fw.GradientDescent(0.05), steps, y_test, ridge=0.3)
    assert_close(again.test, whole.test, SOLVE)


def test_step_is_chosen_from_the_spectrum(problem):
    top = float(np.linalg.eigvalsh(problem.train.ntk)[-1])
    auto = fw.loss_curves(problem, fw.GradientDescent(), [3, 10])
    half = fw.loss_curves(problem, fw.GradientDescent(1 / top), [3, 10])
    assert auto.test is None
    assert_close(auto.train, half.train)
    with pytest.raises(ValueError, match=f"2/lambda_max={2 / top:.4g}"):
        fw.loss_curves(problem, fw.GradientDescent(2.1 / top), [3])


def test_wrong_test_targets_and_algorithms(problem):
    with pytest.raises(ValueError, match="y_test has shape"):
        fw.loss_curves(problem, fw.GradientFlow(), [1], np.ones((4, 2)))
    with pytest.raises(ValueError, match="no trajectory"):
        fw.loss_curves(problem, fw.DirectOptimization(), [1])


@pytest.mark.parametrize("at", [[0, 3, 7], np.array([0, 3, 7]), np.array([0.0, 3.0, 7.0])], ids=str)
def test_times_may_be_any_array_of_numbers(at):
    x = np.linspace(-1, 1, 4)[:, None]
    problem = fw.TrainingProblem.of(fw.MLP((1,), "relu", 0.1, 2.0), x, x, x)
    found = fw.loss_curves(problem, fw.GradientDescent(), at)
    assert_close(found.at, np.array([0.0, 3.0, 7.0]))
    assert (np.diff(found.train) < 0).all()
