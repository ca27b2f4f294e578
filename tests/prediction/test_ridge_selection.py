"""Held-out predictions against retraining, and what is chosen by them."""

import numpy as np
import pytest

import finitewidth as fw
from finitewidth._base.linalg.cholesky import SingularKernelError, factorise
from finitewidth.prediction.methods.infinite_width.ridge import (
    choose_ridge,
    fitted_noise,
    held_out,
    observation_noise,
    without,
)
from finitewidth.prediction.methods.infinite_width.trained import trained_distribution
from finitewidth.prediction.problem.leave_one_out import LeftOut, trained_left_out
from finitewidth.prediction.problem.training_problem import TrainingProblem
from left_out import left_out_by_retraining, most_probable_noise
from tolerances import SERIES, STIFF_SOLVE, assert_close

NET = fw.MLP((8, 8), "relu", 0.1, 2.0)


@pytest.fixture
def data(rng):
    x = rng.normal(size=(30, 3))
    y = x[:, :1] - x[:, 1:2] ** 2 + 0.3 * rng.normal(size=(30, 1))
    return x, y, rng.normal(size=(2, 3))


@pytest.mark.parametrize("algorithm", [fw.GradientDescent(steps=25), fw.GradientFlow(2.0)])
def test_folds_are_predicted_by_networks_trained_on_the_others(data, algorithm):
    problem = TrainingProblem.of(NET, *data)
    rows = np.array([4, 9, 17])
    kept = np.setdiff1d(np.arange(30), rows)
    again = fw.predict(NET, data[0][kept], data[1][kept], data[0][rows], algorithm)
    law = trained_distribution(without(problem, rows), algorithm)
    assert_close(law.mean, again.mean, STIFF_SOLVE)
    assert_close(law.covariance, again.covariance, STIFF_SOLVE)


@pytest.mark.parametrize("ridge", [0.0, 5.0])
@pytest.mark.parametrize("algorithm", [fw.GradientDescent(0.02, steps=25), fw.GradientFlow(0.4)])
def test_a_fold_has_the_law_of_networks_trained_on_the_others(data, algorithm, ridge):
    x, y, _ = data
    out = held_out(TrainingProblem.of(NET, *data), algorithm, ridge)
    assert out.mean.shape == (30, 1)
    folds = np.array_split(np.random.default_rng(0).permutation(30), 5)
    assert [len(fold) for fold in folds] == [6] * 5
    for rows in folds[::2]:
        kept = np.setdiff1d(np.arange(30), rows)
        again = fw.predict(NET, x[kept], y[kept], x[rows], algorithm, ridge=ridge)
        assert_close(out.mean[rows], np.asarray(again.mean), STIFF_SOLVE)
        assert_close(out.variance[rows], np.diag(np.asarray(again.covariance)), STIFF_SOLVE)


def test_the_end_of_training_leaves_out_one_at_a_time(data):
    x, y, _ = data
    out = held_out(TrainingProblem.of(NET, *data), fw.GradientDescent(), 0.2)
    for i in (0, 13):
        kept = np.delete(np.arange(30), i)
        again = fw.predict(NET, x[kept], y[kept], x[i : i + 1], ridge=0.2)
        assert_close(out.mean[i], np.asarray(again.mean[0]), STIFF_SOLVE)
        assert_close(out.variance[i], float(again.covariance[0, 0]), SERIES)


@pytest.mark.parametrize("classes", [0, 3])
def test_one_eigendecomposition_and_a_factor_for_each_ridge_agree(rng, classes):
    """The smooth kernel of tanh on many points: eigenvalues over twelve decades."""
    x, net = rng.normal(size=(200, 4)), fw.MLP((1, 1, 1), "tanh")
    index = np.digitize(x[:, 0] + 0.3 * rng.normal(size=200), [-0.5, 0.5]) if classes else None
    y = x[:, :1] - x[:, 1:2] ** 2 + 0.3 * rng.normal(size=(200, 1)) if index is None else np.eye(3)[index]
    problem = TrainingProblem.of(net, x, y, x[:2])
    choice = choose_ridge(problem, fw.GradientDescent(), index)
    noises = []
    for ridge in choice.ridges:
        left_out = trained_left_out(factorise(problem.train.ntk, ridge), problem.train.nngp, y)
        again = problem.diagonalised().modes.left_out(ridge, y)
        assert_close(again.mean, left_out.mean, STIFF_SOLVE)
        np.testing.assert_allclose(again.variance, left_out.variance, rtol=1e-7)
        noises.append(fitted_noise(left_out, y, index).loss)
    np.testing.assert_allclose(choice.losses, noises, rtol=0, atol=1e-9)


def test_a_diagonalised_problem_has_the_same_law_and_the_same_curves(data):
    problem, y_test = TrainingProblem.of(NET, *data), np.ones((2, 1))
    shared = problem.diagonalised()
    assert shared.diagonalised() is shared
    for algorithm, ridge in ((fw.GradientDescent(), 0.1), (fw.GradientDescent(steps=9), 0.0)):
        law, again = (fw.predict(p, algorithm=algorithm, ridge=ridge) for p in (problem, shared))
        assert_close(again.mean, law.mean, STIFF_SOLVE)
        assert_close(again.covariance, law.covariance, STIFF_SOLVE)
        curves, same = (
            fw.loss_curves(p, algorithm, [0, 4, 50], y_test, ridge=ridge) for p in (problem, shared)
        )
        assert_close(same.train, curves.train, STIFF_SOLVE)
        assert_close(same.test, curves.test, STIFF_SOLVE)


def test_a_singular_kernel_is_refused_by_its_spectrum_too(rng):
    x = rng.normal(size=(6, 2))[[0, 1, 2, 3, 4, 4]]
    problem = TrainingProblem.of(NET, x, x[:, :1], x).diagonalised()
    with pytest.raises(SingularKernelError, match=r"singular on these 6 points .* pass a ridge above 0"):
        held_out(problem, fw.GradientDescent(), 0.0)


def test_noise_is_found_again(rng):
    variance = rng.uniform(0.1, 2.0, size=20_000)
    mean = rng.normal(size=(20_000, 1))
    y = mean + np.sqrt(variance + 0.5)[:, None] * rng.normal(size=(20_000, 1))
    found = observation_noise(LeftOut(mean, variance), y)
    assert abs(found.variance - 0.5) < 0.06
    total = variance + found.variance
    direct = 0.5 * np.mean(np.log(2 * np.pi * total) + (y - mean)[:, 0] ** 2 / total)
    assert_close(found.loss, direct)


def test_the_loss_of_several_outputs_is_the_sum_of_theirs(rng):
    mean, variance, y = rng.normal(size=(40, 3)), rng.uniform(0.1, 2.0, size=40), 2 * rng.normal(size=(40, 3))
    found = observation_noise(LeftOut(mean, variance), y)
    noise, loss = most_probable_noise(mean, variance, y)
    assert abs(np.log(found.variance / noise)) < 5e-3
    assert_close(found.loss, loss, 1e-6)


def test_the_largest_ridge_of_those_that_are_as_good_is_chosen(data):
    """Every ridge of the grid, with points left out by retraining and noise from a fine grid."""
    problem = TrainingProblem.of(NET, *data)
    choice = choose_ridge(problem, fw.GradientDescent())
    assert_close(choice.ridges, np.logspace(-7, 1.5, 18) * np.diag(np.asarray(problem.train.ntk)).mean())
    losses = []
    for ridge in choice.ridges:
        left_out = left_out_by_retraining(problem.train.nngp, problem.train.ntk, problem.y, ridge)
        losses.append(most_probable_noise(*left_out, problem.y))
    assert_close(choice.losses, [loss for _, loss in losses], 1e-5)
    good = choice.losses <= choice.losses.min() + 0.002
    assert good.sum() > 1
    assert choice.ridge == choice.ridges[good].max()
    noise, loss = losses[int(np.flatnonzero(good)[-1])]
    assert abs(np.log(choice.noise.variance / noise)) < 5e-3
    assert_close(choice.noise.loss, loss, 1e-5)


def test_the_ridge_grows_with_the_noise_of_the_labels(rng):
    x = rng.normal(size=(80, 3))
    clean = x[:, :1] - x[:, 1:2]
    chosen = [
        choose_ridge(
            TrainingProblem.of(NET, x, clean + s * rng.normal(size=(80, 1)), x[:1]), fw.GradientDescent()
        )
        for s in (0.01, 1.0)
    ]
    assert chosen[1].ridge > 10 * chosen[0].ridge
    # 80 labels: the standard error of a log variance is about (2/80)^(1/2).
    assert abs(np.log(chosen[1].noise.variance)) < 3 * np.sqrt(2 / 80)
    assert chosen[1].losses.min() <= chosen[1].noise.loss <= chosen[1].losses.min() + 0.002


def test_class_labels_choose_a_ridge_too(rng):
    x = rng.normal(size=(60, 2))
    index = (x[:, 0] > 0).astype(int)
    problem = TrainingProblem.of(NET, x, 2.0 * np.eye(2)[index] - 1, x[:1])
    choice = choose_ridge(problem, fw.DirectOptimization(), index)
    assert choice.noise.loss < np.log(2) / 2
    factorise(problem.train.ntk, choice.ridge)


def test_early_stopping_has_no_ridge_to_choose(data):
    with pytest.raises(ValueError, match="training to the end only"):
        choose_ridge(TrainingProblem.of(NET, *data), fw.GradientDescent(steps=3))
