"""Networks with one thing wrong: three of each kind, by the fault that `diagnose` should name."""

from collections.abc import Callable

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import torch
from healthy_models import KEY, cnn, dense, mlp, of_equinox, of_linen
from torch import nn
from trained_models import Data, Trained, digits, table, train_jax, train_torch, waves

import finitewidth as fw


def drawn(model: nn.Module, gain: float, bias: float = 0.0) -> nn.Module:
    """Weights of standard deviation gain / sqrt(fan-in) in every layer."""
    for layer in model.modules():
        if isinstance(layer, nn.Linear | nn.Conv2d):
            nn.init.normal_(layer.weight, std=gain / layer.weight[0].numel() ** 0.5)
            nn.init.constant_(layer.bias, bias)
    return model


def deep(data: Data, layers: int, activation: type[nn.Module], gain: float, epochs: int = 3) -> Trained:
    return train_torch(drawn(dense(data, (64,) * layers, activation), gain), data, 1e-4, epochs)


def deep_cnn(gain: float) -> Trained:
    parts: list[nn.Module] = [nn.Conv2d(1, 16, 3, padding=1), nn.GELU()]
    for _ in range(14):
        parts += [nn.Conv2d(16, 16, 3, padding=1), nn.GELU()]
    model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(1024, 10))
    return train_torch(drawn(model, gain), digits(), 1e-4, epochs=0)


class Deep(linen.Module):
    layers: int
    gain: float

    @linen.compact
    def __call__(self, x):
        scale = linen.initializers.variance_scaling(self.gain**2, "fan_in", "normal")
        for _ in range(self.layers):
            x = linen.sigmoid(linen.Dense(64, kernel_init=scale)(x))
        return linen.Dense(3)(x)


def deep_finitewidth(C_W: float, data: Data) -> Trained:
    net = fw.MLP((64,) * 16, "gelu", C_b=0.0, C_W=C_W)
    params = net.init(KEY, data.x.shape[1], dtype=jnp.float32)
    params, score = train_jax(net.apply, params, data, rate=1e-5, optimizer="sgd", epochs=0)
    return Trained(net, params, data, 1e-5, "sgd", score)


def saturated(activation: type[nn.Module], data: Data, gain: float) -> Trained:
    return train_torch(drawn(dense(data, (64, 64), activation), gain), data, 1e-3, epochs=5)


class Saturated(linen.Module):
    @linen.compact
    def __call__(self, x):
        scale = linen.initializers.variance_scaling(60.0, "fan_in", "normal")
        x = jnp.tanh(linen.Dense(48, kernel_init=scale)(x))
        return linen.Dense(2)(jnp.tanh(linen.Dense(48, kernel_init=scale)(x)))


def dead_by_bias(data: Data, bias: float) -> Trained:
    return train_torch(drawn(dense(data, (64, 64), nn.ReLU), 1.4, bias), data, 1e-4, epochs=2)


def dead_by_steps() -> Trained:
    """Adam with a step that kills units in the first minibatches, then a small one."""
    data = digits()
    first = mlp(digits, (128, 64), nn.ReLU, rate=1.0, epochs=1)
    return train_torch(first.model, data, 1e-4, epochs=2)


def dead_equinox() -> Trained:
    found = of_equinox(table("wine"), 64, 2, jax.nn.relu, epochs=3)
    where = lambda model: model.layers[1].bias
    return found._replace(model=eqx.tree_at(where, found.model, found.model.layers[1].bias - 30.0))


def too_fast(found: Trained, times: float, optimizer: str) -> Trained:
    """A healthy network, and a step of so many times the largest stable one."""
    limit = fw.diagnose(
        found.model, found.data.x, found.data.y, params=found.params, optimizer=optimizer, points=256
    ).step.largest
    return found._replace(learning_rate=times * limit, optimizer=optimizer)


def mislabelled(one: int, other: int) -> Trained:
    """Trained with one digit called another, looked at with the right labels."""
    data = digits()
    wrong = data._replace(y=np.where(data.y == one, other, data.y))
    model = dense(data, (64, 64), nn.GELU)
    # An output for every class, though one has no example.
    return train_torch(model, wrong._replace(y_test=data.y_test), epochs=15)._replace(data=data)


def silenced() -> Trained:
    """The bias of one class far below the others."""
    found = cnn(nn.GELU, False)
    with torch.no_grad():
        found.model[-1].bias[3] -= 100.0
    return found


def silenced_linen() -> Trained:
    found = of_linen(Plain(), table("wine"))
    params = jax.tree.map(lambda leaf: leaf, found.params)
    params["params"]["Dense_1"]["bias"] = params["params"]["Dense_1"]["bias"].at[1].add(-100.0)
    return found._replace(params=params)


class Plain(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.silu(linen.Dense(32, name="Dense_0")(x))
        return linen.Dense(3, name="Dense_1")(x)


SICK: dict[str, tuple[str, Callable[[], Trained]]] = {
    "gelu 20 layers, weights too small, digits": (
        "vanishing gradients", lambda: deep(digits(), 20, nn.GELU, 0.8)
    ),
    "PyTorch's default, tanh 24 layers, waves": (
        "vanishing gradients", lambda: mlp(waves, (64,) * 24, nn.Tanh, rate=1e-4, epochs=3)
    ),
    "linen sigmoid 12 layers, wine": (
        "vanishing gradients", lambda: of_linen(Deep(12, 1.0), table("wine"), rate=1e-4, epochs=2)
    ),
    "silu 16 layers, weights too large, diabetes": (
        "exploding gradients", lambda: deep(table("diabetes"), 16, nn.SiLU, 3.0, epochs=0)
    ),
    "CNN gelu 15 layers, weights too large": ("exploding gradients", lambda: deep_cnn(2.5)),
    "finitewidth gelu 16 layers, C_W = 6": (
        "exploding gradients", lambda: deep_finitewidth(6.0, table("diabetes"))
    ),
    "tanh, weights too large, wine": ("saturated units", lambda: saturated(nn.Tanh, table("wine"), 8.0)),
    "sigmoid, weights too large, digits": ("saturated units", lambda: saturated(nn.Sigmoid, digits(), 30.0)),
    "linen tanh, weights too large, breast cancer": (
        "saturated units", lambda: of_linen(Saturated(), table("breast_cancer"), epochs=5)
    ),
    "relu, biases of -6, wine": ("dead units", lambda: dead_by_bias(table("wine"), -6.0)),
    "relu, a first step of 1 with Adam, digits": ("dead units", dead_by_steps),
    "equinox relu, a layer shifted by -30, wine": ("dead units", dead_equinox),
    "tanh, gradient descent 4 times too fast": (
        "step too large", lambda: too_fast(mlp(lambda: table("wine"), (64, 64), nn.Tanh), 4.0, "sgd")
    ),
    "softplus regression, momentum 3 times too fast": (
        "step too large", lambda: too_fast(mlp(waves, (32, 32), nn.Softplus, epochs=20), 3.0, "momentum")
    ),
    "equinox silu, gradient descent 5 times too fast": (
        "step too large", lambda: too_fast(of_equinox(waves(), 64, 3, jax.nn.silu, epochs=10), 5.0, "sgd")
    ),
    "digits, 8 trained as 3": ("class never predicted", lambda: mislabelled(8, 3)),
    "CNN, the bias of one class at -100": ("class never predicted", silenced),
    "linen, the bias of one class at -100, wine": ("class never predicted", silenced_linen),
}  # fmt: skip
