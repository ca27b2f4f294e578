"""Advice is checked against kernels, against linear dynamics and against the frameworks themselves."""

import json

import flax.linen
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch

import finitewidth as fw
from tolerances import assert_close


@pytest.fixture
def x(rng) -> np.ndarray:
    return rng.normal(size=(30, 6))


@pytest.mark.parametrize("activation", ["tanh", "gelu", "relu", "sigmoid"])
def test_every_layer_contributes_equally_to_the_ntk(activation, x):
    net = fw.tune(activation, depth=5, width=32, x=x).net
    for kind in ("lambda_b", "lambda_W"):
        for layer in range(net.depth):
            nothing = jnp.zeros(net.depth)
            alone = dict.fromkeys(("lambda_b", "lambda_W"), nothing)
            alone[kind] = nothing.at[layer].set(getattr(net, kind)[layer])
            single = fw.MLP(net.hidden, activation, net.C_b, net.C_W, **alone)
            diagonal = fw.trajectory(single, x).ntk[-1]
            assert_close(diagonal.mean(), 1 / (2 * net.depth))


def test_largest_eta_is_where_gradient_descent_on_the_kernel_stops_converging(x, rng):
    advice = fw.tune("erf", depth=4, width=64, x=x)
    ntk = np.asarray(fw.kernels(advice.net, x).ntk)

    def residual(eta: float) -> float:
        e = np.ones(len(x))
        for _ in range(3000):
            e = e - eta * ntk @ e
        return float(np.linalg.norm(e))

    assert residual(0.999 * advice.eta_max) < np.sqrt(len(x))
    assert residual(1.01 * advice.eta_max) > 1e6


def test_many_points_are_judged_from_a_subset(rng, monkeypatch):
    from finitewidth.advice.tuning import largest_step

    x = rng.normal(size=(400, 5))
    exact = fw.tune("relu", depth=3, width=64, x=x).eta_max
    monkeypatch.setattr(largest_step, "_LARGEST_SPECTRUM", 200)
    assert abs(fw.tune("relu", depth=3, width=64, x=x).eta_max / exact - 1) < 0.05


def torch_default_outputs(depth: int, width: int, x: np.ndarray, draws: int) -> np.ndarray:
    outputs = []
    for seed in range(draws):
        torch.manual_seed(seed)
        layers = []
        for fan_in, fan_out in zip(
            [x.shape[1]] + [width] * (depth - 1), [width] * (depth - 1) + [64], strict=True
        ):
            layers += [torch.nn.Linear(fan_in, fan_out), torch.nn.ReLU()]
        with torch.no_grad():
            outputs.append(torch.nn.Sequential(*layers[:-1])(torch.as_tensor(x, dtype=torch.float32)).numpy())
    return np.stack(outputs)


def flax_default_outputs(depth: int, width: int, x: np.ndarray, draws: int) -> np.ndarray:
    class Default(flax.linen.Module):
        @flax.linen.compact
        def __call__(self, h):
            for _ in range(depth - 1):
                h = flax.linen.relu(flax.linen.Dense(width)(h))
            return flax.linen.Dense(64)(h)

    run = jax.jit(lambda key: Default().apply(Default().init(key, x), x))
    return np.stack([run(jax.random.key(seed)) for seed in range(draws)])


@pytest.mark.parametrize(
    ("framework", "measure"),
    [("PyTorch nn.Linear", torch_default_outputs), ("Flax nn.Dense", flax_default_outputs)],
)
def test_signal_of_framework_defaults(framework, measure, rng):
    """The last layer's variance of real default networks, 64 outputs each, against the prediction."""
    depth, width, draws = 4, 256, 40
    x = rng.normal(size=(1, 16))
    predicted = fw.tune("relu", depth=depth, width=width, x=x, n_out=64).signals[framework].variance[-1]
    per_network = (measure(depth, width, x, draws).astype(float) ** 2).mean(axis=(1, 2))
    error = per_network.std(ddof=1) / np.sqrt(draws)
    # Finite width shifts the mean variance of a ReLU network by less than depth / width.
    assert abs(per_network.mean() - predicted) < 4 * error + depth / width * predicted


@pytest.mark.usefixtures("optimised")
def test_gradient_factor_is_the_jacobian_of_a_wide_network():
    """Sum over a layer of squared derivatives of the output, averaged over real draws."""
    advice = fw.tune("tanh", depth=4, width=256, n_in=8)
    x = jnp.ones((1, 8))

    def squared_gradient(key):
        params = advice.net.init(key, 8)

        def output(shift):
            h = params[0].weight @ x[0] + params[0].bias + shift
            for weight, bias in params[1:]:
                h = weight @ jnp.tanh(h) + bias
            return h[0]

        return jnp.sum(jax.grad(output)(jnp.zeros(256)) ** 2)

    draws = 400
    measured = np.asarray(jax.jit(jax.vmap(squared_gradient))(jax.random.split(jax.random.key(5), draws)))
    predicted = advice.signals["recommended"].gradient[0]
    error = measured.std(ddof=1) / np.sqrt(draws)
    assert abs(measured.mean() - predicted) < 4 * error + advice.aspect_ratio * predicted


def test_orthogonal_inputs_stay_orthogonal_for_odd_activations_without_biases():
    assert abs(fw.tune("tanh", depth=6, width=64).signals["recommended"].correlation) < 1e-12


@pytest.mark.parametrize("square", [1.0, 3.0])
def test_orthogonal_inputs_of_relu_approach_each_other_as_the_arc_cosine_kernel_says(square):
    """Angles of 90 degrees before the first hidden layer, then two steps of the known map."""
    step = lambda c: (np.sqrt(1 - c**2) + c * (np.pi - np.arccos(c))) / np.pi
    x = np.sqrt(square) * np.ones((1, 2))
    found = fw.tune("relu", depth=3, width=64, x=x).signals["recommended"].correlation
    assert_close(found, step(step(0.0)), 1e-5)


def test_the_correlation_with_biases_depends_on_the_size_of_the_inputs():
    """One hidden ReLU layer: K = C_b + C_W s of the inputs, C_b alone between orthogonal ones."""
    C_b, C_W, square = 0.5, 1.6, 0.3
    own = C_b + C_W * square
    c = C_b / own
    pair = own * (np.sqrt(1 - c**2) + c * (np.pi - np.arccos(c))) / (2 * np.pi)
    x = np.sqrt(square) * np.ones((1, 2))
    found = fw.tune("relu", depth=2, width=64, x=x, C_b=C_b, C_W=C_W).signals["recommended"].correlation
    assert_close(found, (C_b + C_W * pair) / (C_b + C_W * own / 2), 1e-5)


def test_without_a_critical_point_gradients_are_kept():
    advice = fw.tune("sigmoid", depth=40, width=512)
    assert advice.universality_class == "none"
    K_star = fw.fixed_point("sigmoid", 0.0, float(advice.net.C_W[0]))
    assert_close(fw.susceptibilities("sigmoid", K_star, advice.net.C_W[0]).perpendicular, 1.0, 1e-8)


def test_own_initialisation_is_judged_as_given():
    advice = fw.tune("softplus", depth=3, width=32, C_b=0.0, C_W=1.0)
    assert advice.reason == "as given"
    assert float(advice.net.C_W[0]) == 1.0


def test_advice_survives_json(x):
    advice = fw.tune("elu", depth=3, width=16, x=x)
    restored = json.loads(json.dumps(advice.to_dict()))
    assert restored["C_W"] == 1.0
    assert len(restored["lambda_W"]) == 3
    assert set(restored["signals"]) == {"recommended", "PyTorch nn.Linear", "Flax nn.Dense"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (dict(activation="gelu", depth=0, width=8), "depth must be a positive whole number, got 0"),
        (dict(activation="gelu", depth=2, width=-1), "width must be a positive whole number, got -1"),
        (dict(activation="softplus", depth=2, width=8), "no critical point"),
        (dict(activation="gelu", depth=2, width=8, C_W=1.0), "both C_b and C_W"),
        (dict(activation="gelu", depth=2, width=8, C_b=0.0, C_W=0.0), "C_W must be finite and positive"),
        (dict(activation="gelu", depth=2, width=8, x=np.ones(3)), r"shape \(points, features\)"),
    ],
)
def test_wrong_input_is_named(arguments, words):
    with pytest.raises(ValueError, match=words):
        fw.tune(**arguments)
