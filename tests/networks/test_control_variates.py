import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from compilations import count_compilations
from finitewidth.networks.training.control_variates import flip_last_layer
from finitewidth.networks.training.linear_descent import linear_descent
from finitewidth.networks.training.optimizers import anchored_descent
from finitewidth.networks.training.training import as_task
from tolerances import assert_close

X = jax.random.normal(jax.random.key(1), (4, 3))
Y = X[:, :1] * X[:, 1:2]
X_TEST = jax.random.normal(jax.random.key(2), (2, 3))
NET = fw.MLP(hidden=(48,), activation="tanh", C_b=0.1, C_W=1.2)
SETTINGS = {"steps": 60, "learning_rate": 0.1}


@pytest.fixture(scope="module")
def paired():
    return fw.paired_ensemble(NET, jax.random.key(0), 64, X, Y, X_TEST, linear_size=640, **SETTINGS)


def test_flipping_turns_the_outputs_and_keeps_the_kernel(net, params, inputs):
    flipped = flip_last_layer(params)
    assert_close(net.apply(flipped, inputs[2]), -net.apply(params, inputs[2]))
    assert_close(fw.empirical_ntk(net, flipped, inputs[2]), fw.empirical_ntk(net, params, inputs[2]))


@pytest.mark.parametrize("steps", [1, 37])
def test_linear_descent_is_the_trained_linear_model(net, params, inputs, steps):
    x, x_test = inputs[2], inputs[1]
    y = jnp.sin(x[:, :2])
    task, _ = as_task(net, params, x, y, 0.05, "sgd", "mse", None, None, None)
    linear = fw.expand(net, params, 1)
    run = fw.train(linear, params, x, y, steps=steps, learning_rate=0.05)
    assert_close(
        linear_descent(task, [params], x_test, 0.05, steps).outputs[0], linear(run.params, x_test), 1e-11
    )


def test_linear_descent_with_a_ridge_is_the_anchored_linear_model(net, params, inputs):
    """The linear model trained with a spring to its start."""
    x, x_test, ridge = inputs[2], inputs[1], 0.7
    y = jnp.sin(x[:, :2])
    task, _ = as_task(net, params, x, y, 0.05, "sgd", "mse", None, None, None)
    linear = fw.expand(net, params, 1)
    spring = anchored_descent(net, x.shape[1:], 0.05, ridge)
    run = fw.train(linear, params, x, y, steps=37, optimizer=spring, rates=net.learning_rates(x.shape[1:]))
    found = linear_descent(task, [params], x_test, 0.05, 37, ridge).outputs[0]
    assert_close(found, linear(run.params, x_test), 1e-11)


def test_the_ridge_of_pairs_reaches_both_partners():
    """A penalty so strong that nothing moves: both partners end where they start."""
    step = {"steps": 5, "learning_rate": 1e-9}
    free, held = (
        fw.paired_ensemble(NET, jax.random.key(3), 2, X, Y, X_TEST, linear_size=2, **how)
        for how in (step, {"steps": 60, "learning_rate": 1e-9, "ridge": 5e8})
    )
    assert_close(held.outputs, free.outputs, 1e-6)
    assert_close(held.linear, held.outputs, 1e-6)
    assert held.settings["ridge"] == 5e8


def test_linear_descent_with_more_points_than_directions(inputs):
    """A kernel with zero eigenvalues: three parameters, four points."""
    net = fw.MLP(hidden=(), activation="linear", lambda_b=0.0)
    params = net.init(jax.random.key(0), 3)
    x = jax.random.normal(jax.random.key(3), (6, 3))
    task, _ = as_task(net, params, x, jnp.ones(6), 0.1, "sgd", "mse", None, None, None)
    run = fw.train(net, params, x, jnp.ones(6), steps=9, learning_rate=0.1)
    assert_close(linear_descent(task, [params], x, 0.1, 9).outputs[0], net.apply(run.params, x), 1e-11)


@pytest.mark.parametrize(("dtype", "step"), [("float64", 1e-13), ("float32", 1e-5)])
def test_linear_descent_keeps_the_digits_of_slow_modes(dtype, step):
    """One weight, one input: the output after T steps is 1 - (1 - eta x^2)^T, which for small eta x^2 is
    T eta x^2 - T (T - 1) / 2 (eta x^2)^2 to within (T eta x^2)^3 / 6."""
    steps, one = 20, jnp.ones((1, 1), dtype)
    model = lambda w, x: w * x
    task, _ = as_task(model, jnp.zeros((), dtype), one, one, step, "sgd", "mse", None, None, None)
    found = linear_descent(task, [jnp.zeros((), dtype)], one, step, steps).outputs[0]
    expected = steps * step - steps * (steps - 1) / 2 * step**2
    assert_close(found, jnp.full((1, 1), expected, dtype))


def test_estimates_agree_with_a_plain_ensemble(paired):
    """Two independent averages of the same mean: four standard errors of their difference."""
    plain = fw.train_ensemble(NET, jax.random.key(9), 512, X, Y, X_TEST, **SETTINGS)
    z = (paired.mean.value - plain.mean) / np.hypot(paired.mean.sem, plain.sem)
    assert np.abs(z).max() < 4
    z = (paired.flipped.value - plain.mean) / np.hypot(paired.flipped.sem, plain.sem)
    assert np.abs(z).max() < 4


def test_errors_are_those_of_both_averages():
    """The pairs by hand from `outputs` and `linear`, the linearised draws of their own again."""
    small = fw.paired_ensemble(NET, jax.random.key(4), 5, X, Y, X_TEST, linear_size=7, **SETTINGS)
    _, linear_key = jax.random.split(jax.random.key(4))
    alone = []
    for i in range(7):
        draw_key, _ = jax.random.split(jax.random.fold_in(linear_key, i))
        params = NET.init(draw_key, 3)
        task, _ = as_task(NET, params, X, Y, SETTINGS["learning_rate"], "sgd", "mse", None, None, None)
        both = linear_descent(task, (params, flip_last_layer(params)), X_TEST, 0.1, 60).outputs
        alone.append(both.mean(axis=0))
    averages = {
        "plain": small.outputs[:, 0],
        "flipped": (small.outputs[:, 0] + small.outputs[:, 1]) / 2,
        "nonlinear": (small.outputs - small.linear).mean(axis=1),
    }
    for name, draws in averages.items():
        estimate = getattr(small, name)
        assert_close(estimate.value, sum(draws) / 5)
        assert_close(estimate.sem**2, ((draws - sum(draws) / 5) ** 2).sum(axis=0) / 4 / 5)
        assert estimate.dof == 4
    linear = sum(alone) / 7
    assert_close(small.mean.value, averages["nonlinear"].mean(axis=0) + linear, 1e-10)
    linear_error = sum((draw - linear) ** 2 for draw in alone) / 6 / 7
    assert_close(small.mean.sem**2, small.nonlinear.sem**2 + linear_error, 1e-9)
    assert (linear_error > 0.01 * small.mean.sem**2).all()
    reduction = small.variance_reduction
    assert_close(reduction["mean"], small.plain.sem**2 / small.mean.sem**2)


def test_the_linearised_draws_are_not_those_of_the_pairs():
    """With as many of both, equal draws would cancel, and the mean would be that of the flipped pairs."""
    small = fw.paired_ensemble(NET, jax.random.key(4), 4, X, Y, X_TEST, linear_size=4, **SETTINGS)
    assert np.abs(small.mean.value - small.flipped.value).max() > 1e-4


def test_variances_fall(paired):
    """Measured at this width: about 10 for flips, 50 to 100 for the pairing with the linear network."""
    reduction = paired.variance_reduction
    assert reduction["flipped"].min() > 3
    assert reduction["nonlinear"].min() > 15
    assert reduction["mean"].min() > 10


def test_an_unstable_linear_partner_is_refused():
    with pytest.raises(ValueError, match=r"learning_rate=2 is above 2/lambda_max for .* use at most 0"):
        fw.paired_ensemble(NET, jax.random.key(0), 4, X, Y, steps=3, learning_rate=2.0, linear_size=4)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
def test_other_draws_need_no_new_program(ridge):
    settings = {"steps": 3, "learning_rate": 0.01, "ridge": ridge, "linear_size": 2}
    fw.paired_ensemble(NET, jax.random.key(4), 2, X, Y, X_TEST, **settings)
    with count_compilations() as compiled:
        fw.paired_ensemble(NET, jax.random.key(5), 2, X, Y, X_TEST, **settings)
    assert compiled == []
