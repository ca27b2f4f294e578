"""`predict(order=1)` inside `jax.jit` and `jax.grad`."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth._base.linalg.separated_modes import separated_modes
from finitewidth.expectations.four_factors.followed_averages import followed_four_point
from finitewidth.expectations.four_factors.four_point import four_point_averages
from finitewidth.prediction.methods.first_order.source_weights import source_weights
from tolerances import PLAIN_DIFFERENCES, SERIES, SOLVE, TENSORS, assert_close

EXACT = fw.DenseTensors(tolerance=1e-10)
NUMBERS = {"C_b": 0.2, "C_W": 1.5, "lambda_W": 0.9, "ridge": 0.1, "eta": 0.1}
CASES = {
    "tanh, a path to the end": ("tanh", lambda n: {"algorithm": fw.GradientDescent(n["eta"])}),
    "gelu, held by a ridge": ("gelu", lambda n: {"ridge": n["ridge"]}),
}


def corrections(case, n):
    activation, training = CASES[case]
    net = fw.MLP((4096,), activation, n["C_b"], n["C_W"], 1.0, n["lambda_W"])
    law = fw.predict(net, n["x"], n["y"], n["x_test"], order=1, method=EXACT, **training(n))
    return law.mean_correction, law.covariance_correction


def differences(function, inputs, name, direction, step=1e-3):
    """Central differences along a direction, extrapolated once."""
    slopes = []
    for h in (step, step / 2):
        ends = [function({**inputs, name: inputs[name] + sign * h * direction}) for sign in (1, -1)]
        slopes.append((np.asarray(ends[0]) - np.asarray(ends[1])) / (2 * h))
    return slopes[1] + (slopes[1] - slopes[0]) / 3


@pytest.mark.parametrize("case", CASES)
def test_the_correction_and_its_gradient(rng, case):
    """Compiled it is the eager one, and its gradient that of differences of the eager one."""
    inputs = {name: rng.normal(size=shape) for name, shape in (("x", (2, 2)), ("y", 2), ("x_test", (1, 2)))}
    inputs |= NUMBERS
    total = lambda n: sum(jnp.sum(part) for part in corrections(case, n))
    value, gradient = jax.jit(jax.value_and_grad(total))(inputs)
    assert_close(value, total(inputs), TENSORS)
    for name, given in inputs.items():
        direction = rng.normal(size=np.shape(given))
        found = np.sum(np.asarray(gradient[name]) * direction)
        assert_close(found, differences(total, inputs, name, direction), PLAIN_DIFFERENCES, scale=abs(value))


WEIGHTS = {
    "steps": lambda n: fw.GradientDescent(n["rate"], 5),
    "time": lambda n: fw.GradientFlow(n["rate"]),
}


@pytest.mark.parametrize("case", WEIGHTS)
def test_the_weights_of_training_that_stops(case):
    """Also of a mode that one step learns: there the logarithm of what is left does not exist."""
    inputs = {"t": np.array([0.4, 1.25]), "rate": 0.8}

    def weights(n):
        found = source_weights(n["t"], WEIGHTS[case](n))
        total = [jnp.sum(jnp.cos(1 + jnp.arange(w.size)) * jnp.ravel(w)) for w in found if w is not None]
        return jnp.stack(total)

    known, changes = weights(inputs), {"t": np.array([0.6, -1.1]), "rate": 1.0}
    for name, change in changes.items():
        tangents = {key: changes[key] * (key == name) for key in inputs}
        value, slope = jax.jit(lambda n, d: jax.jvp(weights, (n,), (d,)))(inputs, tangents)
        assert_close(value, known, SOLVE)
        expected = differences(weights, inputs, name, change)
        assert_close(slope, expected, PLAIN_DIFFERENCES, scale=max(1.0, np.abs(expected).max()))


def test_averages_of_a_singular_covariance_and_their_slopes():
    """Two inputs in three, against the averages of known covariances, and against differences of them."""
    root = np.array([[0.9, 0.0], [0.3, 0.8], [0.6, 0.4]])
    K, moved = root @ root.T, np.array([[0.3, -0.2], [0.1, 0.4], [0.2, 0.1]])
    dK = moved @ root.T + root @ moved.T
    averages = lambda K: followed_four_point(jnp.tanh, K, 1e-9)
    found, slopes = jax.jit(lambda K, dK: jax.jvp(averages, (K,), (dK,)))(K, dK)
    at = lambda step: four_point_averages(jnp.tanh, (root + step * moved) @ (root + step * moved).T, 1e-9)
    ends = {step: at(step) for step in (-2e-3, -1e-3, 0.0, 1e-3, 2e-3)}
    for signature, average in found.items():
        assert_close(average, ends[0.0][signature], SERIES)
        wide, narrow = ((ends[h][signature] - ends[-h][signature]) / (2 * h) for h in (2e-3, 1e-3))
        assert_close(slopes[signature], narrow + (narrow - wide) / 3, PLAIN_DIFFERENCES)


def test_modes_of_equal_eigenvalues_have_derivatives(rng):
    """Of the inverse, made of them: exact but for the ten millionth by which they are apart."""
    V = np.linalg.qr(rng.normal(size=(3, 3)))[0]
    A = (V * np.array([0.5, 0.5, 2.0])) @ V.T
    direction = rng.normal(size=(3, 3))
    direction = direction + direction.T

    def inverse(matrix):
        t, U = separated_modes(matrix)
        return (U / t) @ U.T

    value, slope = jax.jvp(inverse, (jnp.asarray(A),), (jnp.asarray(direction),))
    exact = np.linalg.inv(A)
    assert_close(value, exact, TENSORS)
    assert_close(slope, -exact @ direction @ exact, TENSORS)


def test_more_points_are_sampled_and_sampling_is_not_followed(rng):
    x = rng.normal(size=(14, 2))
    sentence = re.escape("order=1 of more than 14 points must know the values of its inputs")
    with pytest.raises(ValueError, match=sentence):
        jax.eval_shape(lambda x: fw.predict(fw.MLP((16,), "tanh"), x, x[:, 0], x[:1] + 1, order=1).mean, x)


def test_a_kink_between_curved_sides_is_not_followed(rng):
    x, net = rng.normal(size=(2, 2)), fw.MLP((16,), "elu", 0.1, 1.5)
    with pytest.raises(ValueError, match=r"'elu', with its kinks, at order=1 must know the values"):
        jax.eval_shape(lambda x: fw.predict(net, x, x[:, 0], x + 1, order=1).mean, x)


def test_a_ridge_and_an_early_end_are_not_followed():
    sentence = "order=1 with a ridge and training that stops must know the values"
    with pytest.raises(ValueError, match=sentence):
        jax.eval_shape(lambda t: source_weights(t, fw.GradientFlow(1.0), 0.1).h, np.ones(2))
