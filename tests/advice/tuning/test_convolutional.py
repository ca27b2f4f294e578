"""Advice for convolutional networks: against kernels, and the code it hands out is run."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import finitewidth as fw


def run(code: str) -> dict:
    namespace: dict = {}
    exec(compile(code, "snippet", "exec"), namespace)
    return namespace


@pytest.mark.parametrize(("head", "activation"), [("pool", "relu"), ("flatten", "erf")])
def test_the_program_is_the_network_and_its_rates(head, activation, rng):
    """With the weights of the program our network has its outputs; the rates are eta times our tensor."""
    x = rng.normal(size=(3, 4, 4, 2))
    advice = fw.tune_convolutional((5, 6), x, activation=activation, head=head, n_out=2, readout_scale=0.5)
    torch.manual_seed(0)
    space = run(advice.code(learning_rate=0.3))
    model, layers = space["model"].double(), space["layers"]
    assert [tuple(v) for v in space["variances"]] == [
        tuple(float(number) for number in layer.hyperparameters[:2])
        for layer in advice.net.layers
        if isinstance(layer, fw.Conv | fw.Dense)
    ]
    params = list(advice.net.init(jax.random.key(0), (4, 4, 2)))
    places = [i for i, own in enumerate(params) if own]
    for place, layer in zip(places, layers, strict=True):
        weight = layer.weight.detach().numpy()
        if weight.ndim == 4:
            weight = weight.transpose(0, 2, 3, 1)
        elif head == "flatten":
            # PyTorch flattens channels first, we flatten them last.
            weight = weight.reshape(2, 6, 4, 4).transpose(0, 2, 3, 1).reshape(2, -1)
        own = params[place]
        params[place] = own._replace(
            weight=jnp.asarray(weight.reshape(own.weight.shape)),
            bias=jnp.asarray(layer.bias.detach().numpy()),
        )
    outputs = model(torch.tensor(x).permute(0, 3, 1, 2)).detach().numpy()
    np.testing.assert_allclose(advice.net.apply(tuple(params), jnp.asarray(x)), outputs, rtol=1e-6, atol=1e-9)
    groups = iter(space["optimizer"].param_groups)
    for place in places:
        rate = advice.net.learning_rates((4, 4, 2))[place]
        for own in (rate.weight, rate.bias):
            assert next(groups)["lr"] == pytest.approx(0.3 * float(own))


def test_the_largest_step_and_the_signals_are_those_of_the_kernels(rng):
    x = rng.normal(size=(3, 4, 4, 1))
    advice = fw.tune_convolutional((4, 4), x, n_out=1)
    found = fw.kernels(advice.net, x)
    assert advice.eta_max == pytest.approx(2 / np.linalg.eigvalsh(found.ntk)[-1], rel=1e-6)
    assert advice.signals["recommended"][-1] == pytest.approx(float(np.mean(np.diag(found.nngp))))
    # At half the largest step the stiffest mode of the kernel is gone after one step.
    for own, unit in zip(advice.rates(), advice.rates(1.0), strict=True):
        for name in unit:
            assert own[name] / unit[name] * np.linalg.eigvalsh(found.ntk)[-1] == pytest.approx(1, rel=1e-6)
    # PyTorch's first layer by hand: a weight has variance 1/(3 * 9), a bias too; zeros beyond the edges.
    padded = np.pad(x[..., 0], ((0, 0), (1, 1), (1, 1)))
    windows = np.lib.stride_tricks.sliding_window_view(padded**2, (3, 3), axis=(1, 2))
    by_hand = (1 + windows.sum(axis=(-1, -2))).mean() / 27
    assert advice.signals["PyTorch"][0] == pytest.approx(by_hand)


def test_wrong_calls_get_one_sentence(rng):
    x = rng.normal(size=(3, 4, 4, 1))
    with pytest.raises(ValueError, match="has no layer of PyTorch"):
        fw.tune_convolutional((4,), x, padding="CIRCULAR")
    with pytest.raises(ValueError, match="readout_scale must be a positive number"):
        fw.tune_convolutional((4,), x, readout_scale=0)
    with pytest.raises(ValueError, match="learning_rate must be a positive number"):
        fw.tune_convolutional((4,), x).code(learning_rate=-1.0)
