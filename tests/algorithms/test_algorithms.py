import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from tolerances import assert_close

EIGENVALUES = jnp.array([0.0, 1e-14, 1e-6, 0.3, 1.0, 1.7])


@pytest.mark.parametrize("steps", [0, 1, 2, 7, 40])
@pytest.mark.parametrize("eta", [0.1, 0.55, 1.1])
def test_descent_is_the_iterated_recursion(eta, steps):
    residual, learnt = np.ones(len(EIGENVALUES)), np.zeros(len(EIGENVALUES))
    for _ in range(steps):
        learnt = learnt + eta * residual
        residual = residual - eta * np.asarray(EIGENVALUES) * residual
    algorithm = GradientDescent(eta, steps)
    assert_close(algorithm.residual(EIGENVALUES), residual)
    assert_close(algorithm.gain(EIGENVALUES), learnt)


def test_a_step_that_jax_follows_meets_eigenvalues_of_numpy():
    """Three steps learn (1 - (1 - eta t)^3) / t, of which the slope in eta is 3 (1 - eta t)^2."""
    t = np.array([0.2, 1.5])
    learnt = lambda eta: GradientDescent(eta, steps=3).gain(t).sum()
    left = lambda eta: GradientDescent(eta, steps=3).residual(t).sum()
    assert_close(jax.grad(learnt)(0.4), np.sum(3 * (1 - 0.4 * t) ** 2))
    assert_close(jax.grad(left)(0.4), -np.sum(3 * t * (1 - 0.4 * t) ** 2))


def test_many_steps_do_not_lose_the_slow_modes():
    slow, steps = 1e-13, 10**6
    gain = GradientDescent(0.5, steps).gain(jnp.array([slow]))
    assert_close(gain, np.array([0.5 * steps * (1 - 0.5 * slow * (steps - 1) / 2)]))


@pytest.mark.parametrize("time", [0.0, 0.4, 3.0])
def test_flow_is_descent_with_small_steps(time):
    steps = 400_000
    descent = GradientDescent(max(time, 1e-12) / steps, steps if time else 0)
    flow = GradientFlow(time)
    assert_close(flow.residual(EIGENVALUES), descent.residual(EIGENVALUES), 1e-5)
    assert_close(flow.gain(EIGENVALUES), descent.gain(EIGENVALUES), 1e-5)


@pytest.mark.parametrize(
    "algorithm", [GradientDescent(0.4, 5), GradientFlow(2.0), GradientDescent(0.4), GradientFlow()]
)
def test_what_is_learnt_and_what_is_left_make_one(algorithm):
    positive = EIGENVALUES[2:]
    assert_close(positive * algorithm.gain(positive) + algorithm.residual(positive), np.ones(4))


def test_all_algorithms_end_at_the_direct_solution():
    positive = EIGENVALUES[2:]
    for algorithm in (GradientDescent(0.3), GradientFlow(), GradientFlow(1e9), GradientDescent(0.3, 10**9)):
        assert_close(algorithm.gain(positive), DirectOptimization().gain(positive))
        assert_close(1 + algorithm.residual(positive), np.ones(4))


def test_auto_takes_half_the_limit():
    assert GradientDescent().resolved(4.0).eta == 0.25
    assert GradientDescent(0.49).resolved(4.0).eta == 0.49


def test_a_step_above_the_limit_names_it():
    with pytest.raises(ValueError, match=r"eta=0.5 is not below 2/lambda_max=0.5: gradient descent diverges"):
        GradientDescent(0.5).resolved(4.0)


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: GradientDescent(-1.0), "eta must be"),
        (lambda: GradientDescent(math.inf), "eta must be"),
        (lambda: GradientDescent(0.1, 2.5), "steps must be a whole number"),
        (lambda: GradientDescent(0.1, -1), "steps must be a whole number"),
        (lambda: GradientFlow(-1.0), "time must be zero or more"),
        (lambda: GradientFlow(math.nan), "time must be zero or more"),
        (lambda: DirectOptimization().stopped(3), "no trajectory"),
        (lambda: GradientDescent().gain(jnp.ones(1)), None),
        (lambda: GradientDescent("auto", 3).gain(jnp.ones(1)), 'still "auto"'),
    ],
)
def test_bad_settings_get_one_sentence(build, sentence):
    if sentence is None:
        assert_close(build(), np.ones(1))
        return
    with pytest.raises(ValueError, match=sentence):
        build()


@pytest.mark.parametrize(
    "kind", [np.float64, np.float32, np.int64, jnp.asarray], ids=lambda kind: kind.__name__
)
def test_numbers_of_other_libraries_become_plain_ones(kind):
    """Equinox would warn of an array in a static field, and two of them would not compare equal."""
    algorithms = GradientDescent(kind(2), kind(3)), GradientFlow(kind(2)), DirectOptimization(step=kind(1))
    assert algorithms == (GradientDescent(2, 3), GradientFlow(2), DirectOptimization(step=1))
    numbers = [algorithms[0].eta, algorithms[0].steps, algorithms[1].time, algorithms[2].step]
    assert {type(number) for number in numbers} <= {int, float}
