"""Flax, Equinox and PyTorch models: those that fit work, the others get one sentence."""

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from flax import nnx

import finitewidth as fw
from tolerances import SINGLE_SOLVE, assert_close

X = np.random.default_rng(0).normal(size=(5, 2))
X32 = X.astype(np.float32)
Y = np.sin(X[:, :1])


class Plain(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(jnp.tanh(nn.Dense(16)(x)))


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.Dense(1)(nn.BatchNorm(use_running_average=True)(nn.Dense(4)(x)))


class Embedded(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        return nn.Dense(1)(nn.Embed(7, 3)(tokens).reshape(len(tokens), -1))


class NormalisedNNX(nnx.Module):
    def __init__(self, rngs):
        self.first, self.norm = nnx.Linear(2, 4, rngs=rngs), nnx.BatchNorm(4, rngs=rngs)

    def __call__(self, x):
        return self.norm(self.first(x), use_running_average=True)


def flax_params(model, x=X32):
    return model.init(jax.random.key(0), x)


def equinox_model():
    return eqx.nn.MLP(2, 1, 8, 1, key=jax.random.key(0))


ENTRANCES = {
    "empirical_ntk": lambda model, params: fw.empirical_ntk(model, params, X),
    "empirical_ntk_by_group": lambda model, params: fw.empirical_ntk_by_group(model, params, X),
    "empirical_dntk": lambda model, params: fw.empirical_dntk(model, params, X[:2]),
    "empirical_ddntk": lambda model, params: fw.empirical_ddntk(model, params, X[:2]),
    "expand": lambda model, params: fw.expand(model, params, 1),
    "train": lambda model, params: fw.train(model, params, X, Y, steps=1, learning_rate=0.1),
    "TangentModel": lambda model, params: fw.TangentModel(model, params),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_running_averages_are_not_parameters(entrance):
    model = Normalised()
    variables = flax_params(model)
    with pytest.raises(ValueError, match="params holds 'batch_stats' beside 'params'") as refusal:
        ENTRANCES[entrance](model.apply, variables)
    assert 'lambda p, x: model.apply({"params": p, **rest}, x)' in str(refusal.value)


def test_the_two_lines_that_the_sentence_shows():
    model = Normalised()
    variables = flax_params(model)
    rest = {k: v for k, v in variables.items() if k != "params"}
    function = lambda p, x: model.apply({"params": p, **rest}, x)
    kernel = fw.empirical_ntk(function, variables["params"], X)
    jacobian = jax.jacobian(function)(variables["params"], X)
    rows = [np.asarray(leaf).reshape(5, -1) for leaf in jax.tree.leaves(jacobian)]
    assert_close(kernel[0, 0], sum(r @ r.T for r in rows))


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_running_averages_of_nnx_are_not_parameters(entrance):
    graph, state = nnx.split(NormalisedNNX(nnx.Rngs(0)))
    with pytest.raises(
        ValueError, match=r"params\['norm'\]\['mean'\] is a BatchStat.*nnx\.merge\(graph, p, rest"
    ):
        ENTRANCES[entrance](lambda s, x: nnx.merge(graph, s)(x), state)


def test_nnx_in_two_lines():
    graph, params, rest = nnx.split(NormalisedNNX(nnx.Rngs(0)), nnx.Param, ...)
    assert fw.empirical_ntk(lambda p, x: nnx.merge(graph, p, rest)(x), params, X32).shape == (4, 4, 5, 5)


def test_equinox_in_two_lines():
    params, rest = eqx.partition(equinox_model(), eqx.is_inexact_array)
    function = lambda p, x: jax.vmap(eqx.combine(p, rest))(x)
    assert fw.empirical_ntk(function, params, X).shape == (1, 1, 5, 5)
    assert len(fw.train(function, params, X, Y, steps=2, learning_rate=0.01).losses) == 2


WRONG_MODELS = {
    "equinox": (equinox_model, r"MLP of Equinox: with `params, rest = equinox\.partition"),
    "linen": (Plain, r"Plain of Flax: pass `model\.apply`"),
    "nnx": (
        lambda: NormalisedNNX(nnx.Rngs(0)),
        r"NormalisedNNX of Flax: with `graph, params, rest = nnx\.split",
    ),
    "torch": (lambda: torch.nn.Linear(2, 1), "Linear of Torch: JAX cannot differentiate it"),
    "one argument": (lambda: lambda x: x, "which does not take two arguments"),
    "a number": (lambda: 3, "got 3"),
    "nothing": (lambda: None, "got None"),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("case", WRONG_MODELS)
@pytest.mark.usefixtures("unchecked_annotations")
def test_models_that_are_no_function_of_params_and_x(case, entrance):
    make, sentence = WRONG_MODELS[case]
    with pytest.raises(TypeError, match=r"expected a network or a function of \(params, x\), got") as refusal:
        ENTRANCES[entrance](make(), flax_params(Plain()))
    assert refusal.match(sentence)


WRONG_PARAMS = {
    "equinox": (
        equinox_model,
        r"params\.activation is a .*every leaf of params must be an array: with `params",
    ),
    "torch": (lambda: torch.nn.Linear(2, 1), "params is Linear of Torch: JAX cannot differentiate it"),
    "state dict": (lambda: dict(torch.nn.Linear(2, 1).state_dict()), r"params\['bias'\] is Tensor of Torch"),
    "numbers": (
        lambda: {"a": 0.5},
        r"params\['a'\] is 0\.5 \(float\); every leaf of params must be an array",
    ),
    "integers": (lambda: {"a": jnp.arange(3)}, r"params\['a'\] holds int64; every leaf .* real numbers"),
    "complex": (lambda: {"a": jnp.ones(2, complex)}, r"params\['a'\] holds complex128"),
    "words": (lambda: ["a"], r"params\[0\] is 'a' \(str\)"),
    "nothing": (lambda: None, "params holds no arrays"),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("case", WRONG_PARAMS)
@pytest.mark.usefixtures("unchecked_annotations")
def test_parameters_that_cannot_be_trained(case, entrance):
    make, sentence = WRONG_PARAMS[case]
    with pytest.raises((TypeError, ValueError), match=sentence):
        ENTRANCES[entrance](lambda params, x: x, make())


FOR_MLPS_ONLY = {
    "predict": lambda net: fw.predict(net, X, Y, X),
    "kernels": lambda net: fw.kernels(net, X),
    "trajectory": lambda net: fw.trajectory(net, X),
    "evidence": lambda net: fw.evidence(net, X, Y, 0.1),
    "corrections": lambda net: fw.corrections(net, X),
    "depth_growth": lambda net: fw.depth_growth(net),
    "TrainingProblem": lambda net: fw.TrainingProblem.of(net, X, Y, X),
    "train_ensemble": lambda net: fw.train_ensemble(
        net, jax.random.key(0), 3, X, Y, steps=1, learning_rate=0.1
    ),
    "paired_ensemble": lambda net: fw.paired_ensemble(
        net, jax.random.key(0), 3, X, Y, X, steps=1, learning_rate=0.1
    ),
}


@pytest.mark.parametrize("name", FOR_MLPS_ONLY)
@pytest.mark.usefixtures("unchecked_annotations")
def test_only_an_mlp_says_how_it_is_drawn_and_trained(name):
    for model in (Plain().apply, Plain(), torch.nn.Linear(2, 1), "relu", None):
        with pytest.raises(TypeError, match="net must be a network of layers"):
            FOR_MLPS_ONLY[name](model)


@pytest.mark.usefixtures("unchecked_annotations")
def test_verify_and_tune_of_something_else():
    with pytest.raises(TypeError, match=r"law must be what finitewidth\.predict returned, got apply"):
        fw.verify(Plain().apply)
    with pytest.raises(ValueError, match=r"activation 'apply' must be a function of one array.*TypeError"):
        fw.tune(Plain().apply, 3, 64)
    with pytest.raises(ValueError, match="activation 'custom' must be a function of one array"):
        fw.tune(torch.nn.Linear(2, 1), 3, 64)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("order", [None, 2])
def test_nearly_kernel_machines_of_float32_parameters(order, dtype):
    model = Plain()
    params = flax_params(model)
    exact = jax.tree.map(lambda leaf: leaf.astype(float), params)
    single, double = (
        fw.nearly_kernel_machine(fw.TangentModel(model.apply, p, order, epsilon=0.1), x, Y, x[:2] + 0.1)
        for p, x in ((params, X.astype(dtype)), (exact, X))
    )
    assert_close(single.linear, double.linear, SINGLE_SOLVE)
    assert_close(single.correction, double.correction, SINGLE_SOLVE)


def test_whole_numbers_reach_an_embedding():
    model = Embedded()
    tokens = np.array([[0, 1], [2, 6], [3, 3]])
    params = flax_params(model, tokens)
    kernel = fw.empirical_ntk(model.apply, params, tokens)
    jacobian = jax.jacobian(model.apply)(params, tokens)
    rows = [np.asarray(leaf).reshape(3, -1) for leaf in jax.tree.leaves(jacobian)]
    assert_close(kernel[0, 0], sum(r @ r.T for r in rows))
    assert fw.train(model.apply, params, tokens, Y[:3], steps=2, learning_rate=0.01).losses.shape == (2,)
    assert fw.empirical_dntk(model.apply, params, tokens).shape == (1, 1, 1, 3, 3, 3)
    assert fw.expand(model.apply, params, 1)(params, jnp.asarray(tokens)).shape == (3, 1)


def test_whole_numbers_are_real_numbers_for_an_mlp():
    net = fw.MLP((4,), "tanh")
    params = net.init(jax.random.key(0), 2)
    counts = np.array([[1, 2], [3, 4]])
    assert_close(fw.empirical_ntk(net, params, counts), fw.empirical_ntk(net, params, counts.astype(float)))


@pytest.mark.usefixtures("unchecked_annotations")
def test_a_dictionary_of_inputs():
    with pytest.raises(ValueError, match="x1 is a dictionary; it must be one array of numbers"):
        fw.empirical_ntk(lambda p, x: x["a"] @ p, jnp.ones((2, 1)), {"a": X})


@pytest.mark.parametrize("parametrisation", ["standard", "mean-field", "mup", "mup:8"])
@pytest.mark.parametrize("name", [n for n in FOR_MLPS_ONLY if "ensemble" not in n])
def test_the_theory_refuses_other_parametrisations(name, parametrisation):
    net = fw.MLP((8, 8), "tanh", parametrisation=parametrisation)
    full = "mup:1" if parametrisation == "mup" else parametrisation
    with pytest.raises(ValueError, match=f"net has the parametrisation '{full}'; the theory .* 'ntk' only: "):
        FOR_MLPS_ONLY[name](net)


def test_the_standard_parametrisation_is_the_ntk_one_with_other_rates():
    variances, lambda_W = {"C_b": 0.1, "C_W": 1.3, "lambda_b": 0.3}, np.array([1.0, 0.5, 2.0])
    standard = fw.MLP((8, 6), "tanh", **variances, lambda_W=lambda_W, parametrisation="standard")
    same = fw.MLP((8, 6), "tanh", **variances, lambda_W=lambda_W * (2, 8, 6))
    params, others = (net.init(jax.random.key(0), 2) for net in (standard, same))
    assert eqx.tree_equal(params, others)
    assert_close(fw.empirical_ntk(standard, params, X), fw.empirical_ntk(same, params, X))
