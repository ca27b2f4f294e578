"""Training beside the linearisation, from initial weights of several sizes, and over learning rates."""

import jax
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.course.lazy_training.networks.initial_scales import Task, teacher_task, train_at_scales
from finitewidth.course.lazy_training.networks.linearised_path import linearised_path
from finitewidth.networks.tangent.taylor import expand
from finitewidth.networks.training.learning_rates import best_rate, learning_rate_sweep
from finitewidth.networks.training.training import DivergenceError, train

NET = fw.MLP((12,), "tanh")
PARAMS = NET.init(jax.random.key(0), 3)
X = np.random.default_rng(0).normal(size=(6, 3))
Y = np.sin(X[:, :1])


def test_both_paths_are_those_of_plain_training():
    found = linearised_path(NET, PARAMS, X, Y, learning_rate=0.1, steps=25, record_every=10)
    assert found.times.tolist() == [0, 10, 20, 25]
    for column, model in enumerate((NET, expand(NET, PARAMS, order=1))):
        run = train(
            model,
            PARAMS,
            X,
            Y,
            learning_rate=0.1,
            steps=25,
            rates=NET.learning_rates(3),
            record=("loss",),
            record_every=10,
        )
        np.testing.assert_allclose(found.losses[:, column], run.recorded["loss"], rtol=1e-10)


def test_a_linear_model_is_its_linearisation_at_every_scale():
    """Half the residual of a frozen kernel is gone after the same steps, whatever the scale."""
    w = np.zeros((3, 1))
    curves = []
    for scale in (0.5, 20.0):
        run = linearised_path(lambda w, x: x @ w, w, X, Y, learning_rate=0.05, steps=40, scale=scale)
        assert run.largest[1] < 1e-12
        assert run.kernel_change < 1e-12
        curves.append(run.losses[:, 0])
    np.testing.assert_allclose(*curves, rtol=1e-10)


def test_steps_that_diverge_and_wrong_scales_are_refused():
    with pytest.raises(DivergenceError, match="training diverged with learning_rate=1e\\+04"):
        linearised_path(NET, PARAMS, X, Y, learning_rate=1e4, steps=50)
    with pytest.raises(ValueError, match="scale must be a positive number"):
        linearised_path(NET, PARAMS, X, Y, learning_rate=0.1, steps=5, scale=0.0)
    task = Task(X, Y, X, Y)
    with pytest.raises(ValueError, match=r"scales must be positive numbers, got \[-1.0\]"):
        train_at_scales(NET, PARAMS, task, [-1.0], steps=5)
    with pytest.raises(ValueError, match="it must be below 2"):
        train_at_scales(NET, PARAMS, task, [1.0], steps=5, edge=2.0)


def test_a_scale_of_one_is_training_from_the_given_weights():
    task = teacher_task(jax.random.key(3), n_in=3, points=20, test=30)
    found = train_at_scales(NET, PARAMS, task, [1.0, 4.0], steps=50)
    kernel = np.asarray(fw.empirical_ntk(NET, PARAMS, task.x)).reshape(20, 20)
    eta = 1 / np.linalg.eigvalsh(kernel)[-1]
    start = NET.apply(PARAMS, jax.numpy.asarray(task.x))
    run = train(NET, PARAMS, task.x, task.y + start, learning_rate=float(eta), steps=50, record=("loss",))
    # Powers of the kernel find its largest eigenvalue up to the next one.
    np.testing.assert_allclose(found.train_losses[0], run.recorded["loss"][-1] / 20, rtol=0.02)
    assert found.motion[1] < found.motion[0]


def test_the_best_rate_of_a_parabola():
    rates = 2.0 ** np.arange(-6, 3)
    losses = 2.0 ** (0.3 * (np.log2(rates) + 2.4) ** 2 - 5)
    np.testing.assert_allclose(np.log2(best_rate(rates, losses)), -2.4)
    with pytest.raises(ValueError, match="at least 3 rates"):
        best_rate(rates[:2], losses[:2])


def test_a_sweep_counts_divergence_as_no_learning():
    found = learning_rate_sweep(NET, jax.random.key(1), 2, X, Y, X, Y, [0.05, 1e6], steps=20, optimizer="sgd")
    np.testing.assert_allclose(found.losses[:, 1], np.mean(Y**2) / 2)
    assert (found.losses[:, 0] < found.losses[:, 1]).all()
    with pytest.raises(ValueError, match="rates must be positive and ascending"):
        learning_rate_sweep(NET, jax.random.key(1), 2, X, Y, X, Y, [0.1, 0.05], steps=2)
