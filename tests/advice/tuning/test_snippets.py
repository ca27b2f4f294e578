"""The code that `tune` hands out is run, and does what it says."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import finitewidth as fw
from finitewidth.architecture.activations import as_activation
from finitewidth.architecture.dense import Affine
from tolerances import assert_close

PASTABLE = [name for name in fw.ACTIVATION_NAMES if name not in ("step", "cos", "softplus")]
WITH_PARAMETER = ["leaky_relu:0.2"]


def run(code: str) -> dict:
    namespace: dict = {}
    exec(compile(code, "snippet", "exec"), namespace)
    return namespace


@functools.cache
def advice_on(activation: str):
    """Computed once for both frameworks."""
    return fw.tune(activation, depth=4, width=24, n_in=7, n_out=2)


@pytest.mark.parametrize("activation", PASTABLE + WITH_PARAMETER)
def test_pytorch_model_is_the_recommended_network(activation, rng):
    advice = advice_on(activation)
    torch.manual_seed(0)
    model = run(advice.pytorch)["model"].double()
    x = rng.normal(size=(5, 7))
    params = tuple(
        Affine(jnp.asarray(layer.weight.detach().numpy()), jnp.asarray(layer.bias.detach().numpy()))
        for layer in model
        if isinstance(layer, torch.nn.Linear)
    )
    assert_close(model(torch.as_tensor(x)).detach().numpy(), advice.net.apply(params, jnp.asarray(x)), 1e-6)


def test_functions_without_a_snippet_of_their_own_are_left_to_the_reader():
    advice = fw.tune(lambda z: jnp.tanh(2 * z), depth=3, width=8)
    assert "your_activation" in advice.pytorch
    assert "your_activation" in advice.jax


def test_pytorch_draws_have_the_recommended_variance():
    advice = fw.tune("gelu", depth=3, width=1500, n_in=900, n_out=1)
    torch.manual_seed(1)
    linear = [m for m in run(advice.pytorch)["model"] if isinstance(m, torch.nn.Linear)]
    C_b, C_W = float(advice.net.C_b[0]), float(advice.net.C_W[0])
    for layer in linear[:2]:
        weight, bias = (p.detach().double().numpy() for p in (layer.weight, layer.bias))
        assert abs((weight**2).mean() * layer.in_features / C_W - 1) < 4 * np.sqrt(2 / weight.size)
        assert abs((bias**2).mean() / C_b - 1) < 4 * np.sqrt(2 / bias.size)


def test_pytorch_step_is_the_learning_rate_tensor(rng):
    """One step of the pasted optimizer moves the parameters as the network's own rates say."""
    x = rng.normal(size=(6, 5))
    advice = fw.tune("tanh", depth=3, width=10, x=x)
    torch.manual_seed(2)
    code = run(advice.pytorch)
    model, optimizer = code["model"].double(), code["optimizer"]
    before = [p.detach().clone() for p in model.parameters()]
    loss = 0.5 * (model(torch.as_tensor(x)) ** 2).sum()
    gradients = torch.autograd.grad(loss, list(model.parameters()), retain_graph=True)
    loss.backward()
    optimizer.step()
    eta = advice.eta_max / 2
    for i, p in enumerate(model.parameters()):
        layer, is_bias = divmod(i, 2)
        rate = advice.net.lambda_b[layer] if is_bias else advice.net.lambda_W[layer] / p.shape[1]
        expected = before[i] - eta * float(rate) * gradients[i]
        # The pasted numbers carry four digits.
        assert_close((p - before[i]).detach().numpy(), (expected - before[i]).numpy(), 2e-3)


@pytest.mark.parametrize("activation", PASTABLE + WITH_PARAMETER)
def test_jax_model_is_the_recommended_network(activation, rng):
    advice = advice_on(activation)
    code = run(advice.jax)
    params = code["init"](jax.random.key(0))
    x = jnp.asarray(rng.normal(size=(5, 7)))
    own = tuple(Affine(weight.T, bias) for weight, bias in params)
    assert_close(code["apply"](params, x), advice.net.apply(own, x))
    if activation in fw.ACTIVATION_NAMES:
        z = jnp.linspace(-3, 3, 31)
        assert_close(code["activation"](z), as_activation(activation)(z))


def test_jax_draws_have_the_recommended_variance():
    advice = fw.tune("gelu", depth=3, width=1200, n_in=900, n_out=1)
    params = run(advice.jax)["init"](jax.random.key(1))
    C_b, C_W = float(advice.net.C_b[0]), float(advice.net.C_W[0])
    for weight, bias in params[:2]:
        assert abs(float((weight**2).mean()) * weight.shape[0] / C_W - 1) < 4 * np.sqrt(2 / weight.size)
        assert abs(float((bias**2).mean()) / C_b - 1) < 4 * np.sqrt(2 / bias.size)


def test_jax_step_is_the_learning_rate_tensor(rng):
    """One pasted step moves weights and biases as the network's own rates say."""
    x, y = rng.normal(size=(20, 5)), rng.normal(size=(20, 1))
    advice = fw.tune("tanh", depth=4, width=64, x=x)
    code = run(advice.jax)
    params = code["init"](jax.random.key(3))
    own = tuple(Affine(weight.T, bias) for weight, bias in params)
    slopes = jax.grad(lambda p: 0.5 * jnp.sum((advice.net.apply(p, jnp.asarray(x)) - y) ** 2))(own)
    eta = advice.eta_max / 2
    for l, ((w, b), (new_w, new_b)) in enumerate(zip(params, code["step"](params, x, y), strict=True)):
        # The pasted numbers carry four digits.
        weight_step = -eta * float(advice.net.lambda_W[l]) / w.shape[0] * slopes[l].weight.T
        assert_close(new_w - w, weight_step, 2e-3)
        assert_close(new_b - b, -eta * float(advice.net.lambda_b[l]) * slopes[l].bias, 2e-3)


def test_jax_step_descends_at_the_recommended_rate(rng):
    x, y = rng.normal(size=(20, 5)), rng.normal(size=(20, 1))
    code = run(fw.tune("relu", depth=4, width=64, x=x).jax)
    params = code["init"](jax.random.key(3))
    losses = [float(code["loss"](params, x, y))]
    for _ in range(60):
        params = code["step"](params, x, y)
        losses.append(float(code["loss"](params, x, y)))
    assert losses[-1] < 0.2 * losses[0]
