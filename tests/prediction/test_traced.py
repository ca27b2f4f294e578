"""`predict` inside `jax.jit`, `jax.grad` and `jax.vmap`."""

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction import choose_ridge
from tolerances import PLAIN_DIFFERENCES, SERIES, assert_close

# Where slopes are taken: C_b and C_W, lambda_W, the ridge, and what the algorithm is given.
NUMBERS = {"C_b": 0.2, "C_W": 1.6, "lambda_W": 0.9, "ridge": 0.1, "setting": 0.8}
STEP = 1e-4


def mlp(activation):
    return lambda n: fw.MLP((16, 16), activation, n["C_b"], n["C_W"], 1.0, n["lambda_W"])


def residual(n):
    dense = lambda: fw.Dense(16, n["C_b"], n["C_W"], 1.0, n["lambda_W"])
    return fw.Sequential(
        dense(), fw.Residual(fw.Activate("erf"), dense(), beta=0.7), fw.Activate("relu"), fw.Dense(1)
    )


def convolutional(n):
    layer = fw.Conv(8, 2, C_b=n["C_b"], C_W=n["C_W"], lambda_W=n["lambda_W"])
    return fw.Sequential(layer, fw.Activate("erf"), fw.GlobalAveragePool(), fw.Dense(1))


CASES = {
    "relu to the end": (mlp("relu"), lambda s: fw.GradientDescent()),
    "tanh after steps": (mlp("tanh"), lambda s: fw.GradientDescent(s / 8, 6)),
    "gelu after a time": (mlp("gelu"), fw.GradientFlow),
    "erf after steps of the default size": (mlp("erf"), lambda s: fw.GradientDescent(steps=1)),
    "residual, direct": (residual, lambda s: fw.DirectOptimization()),
    "convolutional": (convolutional, lambda s: fw.GradientDescent(s / 8, 6)),
    "posterior": (mlp("erf"), lambda s: fw.BayesianInference(0.3)),
}


def problem(rng, net):
    shape = (4, 2) if net is convolutional else (3,)
    at = lambda n: rng.normal(size=(n, *shape))
    return {"x": at(4), "y": rng.normal(size=(4, 2)), "x_test": at(2), **NUMBERS}


def law(case, inputs, **options):
    net, algorithm = CASES[case]
    chosen = algorithm(inputs["setting"])
    if not isinstance(chosen, fw.BayesianInference):
        options["ridge"] = inputs["ridge"]
    data = (inputs[name] for name in ("x", "y", "x_test"))
    found = fw.predict(net(inputs), *data, chosen, **options)
    return found.mean, found.covariance


def scalar(case, weights, **options):
    return lambda inputs: sum(
        jnp.sum(w * part) for w, part in zip(weights, law(case, inputs, **options), strict=True)
    )


def assert_gradients(function, gradient, inputs, rng):
    """Every part of the gradient along a random direction, against central differences, extrapolated."""
    for name, value in inputs.items():
        direction = rng.normal(size=np.shape(value))
        slopes = []
        for step in (STEP, STEP / 2):
            ends = [function({**inputs, name: value + sign * step * direction}) for sign in (1, -1)]
            slopes.append(float(ends[0] - ends[1]) / (2 * step))
        expected = slopes[1] + (slopes[1] - slopes[0]) / 3
        found = np.sum(np.asarray(gradient[name]) * direction)
        assert_close(found, expected, PLAIN_DIFFERENCES, scale=max(abs(expected), 1.0))


@pytest.mark.parametrize("case", CASES)
def test_the_law_and_its_gradients(rng, case):
    """Compiled it is the eager law, and its gradients are those of differences of it."""
    inputs = problem(rng, CASES[case][0])
    compiled = jax.jit(lambda given: law(case, given))
    for found, expected in zip(compiled(inputs), law(case, inputs), strict=True):
        assert_close(found, expected, SERIES)
    weights = rng.normal(size=(2, 2)), rng.normal(size=(2, 2))
    gradient = jax.jit(jax.grad(scalar(case, weights)))(inputs)
    value = lambda given: sum(
        np.sum(w * np.asarray(p)) for w, p in zip(weights, compiled(given), strict=True)
    )
    assert_gradients(value, gradient, inputs, rng)


def test_vmap_over_a_setting_is_one_law_after_the_other(rng):
    inputs, case = problem(rng, mlp), "gelu after a time"
    times = jnp.array([0.3, 2.0])
    together = jax.vmap(lambda s: law(case, {**inputs, "setting": s}))(times)
    for k, time in enumerate(times.tolist()):
        for found, expected in zip(together, law(case, {**inputs, "setting": time}), strict=True):
            assert_close(found[k], expected, SERIES)


def test_a_traced_law_has_the_precision_of_its_inputs(rng):
    inputs = problem(rng, mlp)
    single = {name: np.float32(value) for name, value in inputs.items()}
    for each in ("tanh after steps", "erf after steps of the default size", "relu to the end"):
        found = jax.eval_shape(lambda given, each=each: law(each, given), single)
        assert [part.dtype for part in found] == [np.float32] * 2


def test_a_singular_kernel_gives_nan(rng):
    x, y = rng.normal(size=(3, 2)), np.ones(3)
    net = fw.MLP((16,), "erf", 0.1, 1.5)
    mean = jax.jit(lambda x: fw.predict(net, x, y, x[:1] + 1.0).mean)
    assert np.isfinite(np.asarray(mean(x))).all()
    assert np.isnan(np.asarray(mean(x[[0, 1, 1]]))).all()


def test_a_problem_computed_before_is_followed_in_its_ridge(rng):
    """Also where nothing but the compiler asks: then every operation is followed."""
    net, x, y = fw.MLP((16,), "erf", 0.1, 1.5), rng.normal(size=(4, 2)), rng.normal(size=4)
    known = fw.TrainingProblem.of(net, x, y, x[:2])
    for algorithm in (fw.GradientDescent(), fw.GradientFlow(2.0)):
        expected = fw.predict(known, algorithm=algorithm, ridge=0.3).mean
        assert_close(
            jax.jit(lambda r, a=algorithm: fw.predict(known, algorithm=a, ridge=r).mean)(0.3), expected
        )
        assert_close(jax.jit(lambda a=algorithm: fw.predict(known, algorithm=a, ridge=0.3).mean)(), expected)


REFUSED = {
    "choose_ridge": lambda net, x: choose_ridge(
        fw.TrainingProblem.of(net, x, np.ones(3), x), fw.GradientDescent()
    ),
    "loss_curves": lambda net, x: fw.loss_curves(
        fw.TrainingProblem.of(net, x, np.ones(3), x), fw.GradientDescent(), [1]
    ),
    "save": lambda net, x: fw.predict(net, x, np.ones(3), x, ridge=0.1).save("law.npz"),
    'width="finite"': lambda net, x: fw.predict(net, x, np.ones(3), x, fw.BayesianInference(0.1, "finite")),
    "order='1/2'": lambda net, x: fw.predict(net, x, np.ones(3), x, order="1/2"),
    "method=SampledNeurons()": lambda net, x: fw.predict(
        net, x, np.ones(3), x, order=1, method=fw.SampledNeurons()
    ),
    "solver='iterative' (as asked)": lambda net, x: fw.predict(net, x, np.ones(3), x, solver="iterative"),
    "diagonalised": lambda net, x: fw.TrainingProblem.of(net, x, np.ones(3), x).diagonalised(),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_must_look_at_numbers_says_so(rng, what):
    net = fw.MLP((16,), "erf", 0.1, 1.5)
    with pytest.raises(
        ValueError, match=re.escape(what) + " must know the values of its inputs, which jax.jit"
    ):
        jax.eval_shape(lambda x: REFUSED[what](net, x), rng.normal(size=(3, 2)))


def test_a_traced_law_does_not_know_which_networks_to_train(rng):
    x = rng.normal(size=(3, 2))
    found = jax.jit(lambda x: fw.predict(fw.MLP((16,), "erf", 0.1, 1.5), x, np.ones(3), x[:1] + 1))(x)
    assert found.provenance is None
    with pytest.raises(ValueError, match=r"outside of jax.jit"):
        fw.verify(found, networks=3)
    with pytest.raises(AttributeError, match=r"outside of jax.jit"):
        found.range  # noqa: B018
