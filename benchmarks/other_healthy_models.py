"""Thirty more healthy networks, of kinds that had no part in any rule of `diagnose`."""

import itertools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import linen
from healthy_models import KEY, Normalised, mlp, of_linen
from torch import Tensor, nn
from trained_models import (
    Data,
    Trained,
    blobs,
    digits,
    friedman,
    moons,
    sequences,
    table,
    teacher,
    train_jax,
    train_torch,
    waves,
)


class Sine(nn.Module):
    """sin(3 z): a network of sines."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.sin(3 * x)


class Fourier(nn.Module):
    """Random waves of the inputs, not trained, below a dense network."""

    def __init__(self, features: int, outputs: int):
        super().__init__()
        self.register_buffer("waves", torch.randn(features, 32))
        self.net = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, outputs))

    def forward(self, x: Tensor) -> Tensor:
        angle = x @ self.waves
        return self.net(torch.cat([angle.sin(), angle.cos()], 1))


class Highway(nn.Module):
    """x g(x) + f(x) (1 - g(x))."""

    def __init__(self, width: int):
        super().__init__()
        self.f, self.g = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        gate = self.g(x).sigmoid()
        return x * gate + self.f(x).relu() * (1 - gate)


class Scaled(nn.Module):
    """x + a f(x) with a gain a that starts at zero."""

    def __init__(self, width: int):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.gain = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.gain * self.inner(x)


class Concatenated(nn.Module):
    """Every layer sees all layers before it."""

    def __init__(self, features: int, outputs: int):
        super().__init__()
        sizes = itertools.accumulate([features, 24, 24, 24])
        self.layers = nn.ModuleList(nn.Linear(size, 24) for size in sizes)
        self.head = nn.Linear(features + 96, outputs)

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, layer(x).relu()], 1)
        return self.head(x)


class Experts(nn.Module):
    """A weighted sum of four small networks."""

    def __init__(self, features: int, outputs: int):
        super().__init__()
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(features, 16), nn.Tanh(), nn.Linear(16, outputs)) for _ in range(4)
        )
        self.router = nn.Linear(features, 4)

    def forward(self, x: Tensor) -> Tensor:
        answers = torch.stack([expert(x) for expert in self.experts], 2)
        return (answers * self.router(x).softmax(1)[:, None]).sum(2)


class PreActivated(nn.Module):
    """x + conv(relu(norm(conv(relu(norm(x))))))."""

    def __init__(self, channels: int):
        super().__init__()
        self.inner = nn.Sequential(
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1),
            nn.BatchNorm2d(channels), nn.ReLU(), nn.Conv2d(channels, channels, 3, padding=1),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return x + self.inner(x)


class Squeezed(nn.Module):
    """Channels weighed by a small network of their means."""

    def __init__(self, channels: int):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.weigh = nn.Sequential(nn.Linear(channels, 4), nn.ReLU(), nn.Linear(4, channels), nn.Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x).relu()
        return x + y * self.weigh(y.mean((2, 3)))[:, :, None, None]


class Patches(nn.Module):
    """A picture's 2 x 2 patches and a class token through transformer layers with norm first."""

    def __init__(self, layers: int):
        super().__init__()
        self.embed = nn.Conv2d(1, 24, 2, 2)
        self.token = nn.Parameter(0.02 * torch.randn(1, 1, 24))
        self.place = nn.Parameter(0.02 * torch.randn(1, 17, 24))
        layer = nn.TransformerEncoderLayer(
            24, 3, 48, dropout=0.0, activation="gelu", batch_first=True, norm_first=True
        )
        self.encoder = nn.TransformerEncoder(layer, layers, nn.LayerNorm(24), enable_nested_tensor=False)
        self.head = nn.Linear(24, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x).flatten(2).mT
        x = torch.cat([self.token.expand(len(x), -1, -1), x], 1) + self.place
        return self.head(self.encoder(x)[:, 0])


class Pooled(nn.Module):
    """One network for every entry of a sequence, then the largest of each feature."""

    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
        self.register_buffer("place", torch.linspace(-1, 1, 8)[:, None])

    def forward(self, x: Tensor) -> Tensor:
        x = torch.cat([x, self.place.expand(len(x), -1, -1)], 2)
        return self.head(self.each(x).amax(1))


def pictures(*parts: nn.Module, **training) -> Trained:
    return train_torch(nn.Sequential(*parts), digits(), **training)


def depthwise() -> Trained:
    blocks = [
        part
        for _ in range(3)
        for part in (nn.Conv2d(24, 24, 3, padding=1, groups=24), nn.Conv2d(24, 24, 1), nn.Hardswish())
    ]
    return pictures(
        nn.Conv2d(1, 24, 3, padding=1), nn.Hardswish(), *blocks, nn.AvgPool2d(4), nn.Flatten(),
        nn.Linear(96, 10), epochs=10,
    )  # fmt: skip


def pooled_cnn() -> Trained:
    return pictures(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3, padding=1),
        nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, 10), epochs=12,
    )  # fmt: skip


def strided_cnn() -> Trained:
    return pictures(
        nn.Conv2d(1, 16, 3, 2, 1), nn.GroupNorm(4, 16), nn.Mish(), nn.Conv2d(16, 32, 3, 2, 1),
        nn.GroupNorm(4, 32), nn.Mish(), nn.Flatten(), nn.Linear(128, 10), epochs=12,
    )  # fmt: skip


def deep_residual_cnn() -> Trained:
    return pictures(
        nn.Conv2d(1, 12, 3, padding=1), *(PreActivated(12) for _ in range(8)), nn.BatchNorm2d(12), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(12, 10), epochs=6,
    )  # fmt: skip


def squeezed_cnn() -> Trained:
    return pictures(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), Squeezed(16), nn.AvgPool2d(2), Squeezed(16),
        nn.AvgPool2d(2), nn.Flatten(), nn.Linear(64, 10), epochs=12,
    )  # fmt: skip


def dilated() -> Trained:
    """Convolutions in one dimension over the sequence, ever farther apart."""

    class Turned(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.mT

    parts = [part for d in (1, 2, 4) for part in (nn.Conv1d(32, 32, 3, padding=d, dilation=d), nn.ReLU())]
    model = nn.Sequential(Turned(), nn.Conv1d(4, 32, 1), nn.ReLU(), *parts, nn.Flatten(), nn.Linear(256, 8))
    return train_torch(model, sequences(), epochs=15)


def stack(make: Callable[[], Data], width: int, blocks: list[nn.Module], **training) -> Trained:
    data = make()
    features = int(np.prod(data.x.shape[1:]))
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(features, width), *blocks, nn.Linear(width, data.classes or data.y.shape[1])
    )
    return train_torch(model, data, **training)


def normalised_batches() -> Trained:
    parts = [part for _ in range(4) for part in (nn.Linear(48, 48), nn.BatchNorm1d(48), nn.ReLU())]
    return stack(lambda: blobs(8), 48, parts)


def autoencoder() -> Trained:
    """Pictures through a bottleneck of eight numbers, and back."""
    data = digits()
    rows, held = data.x.reshape(-1, 64), data.x_test.reshape(-1, 64)
    model = nn.Sequential(
        nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 12), nn.GELU(), nn.Linear(12, 48), nn.GELU(),
        nn.Linear(48, 64),
    )  # fmt: skip
    return train_torch(model, Data(rows, rows, held, held), epochs=25)


class RootMeanSquare(linen.Module):
    """A residual network in linen, normalised by root mean squares, with gated branches."""

    outputs: int
    blocks: int = 6

    @linen.compact
    def __call__(self, x):
        x = linen.Dense(32)(x)
        for _ in range(self.blocks):
            y = linen.RMSNorm()(x)
            x = x + linen.Dense(32)(linen.silu(linen.Dense(64)(y)) * linen.Dense(64)(y))
        return linen.Dense(self.outputs)(linen.RMSNorm()(x))


class Shared(linen.Module):
    """One layer used five times."""

    @linen.compact
    def __call__(self, x):
        layer, x = linen.Dense(48), linen.Dense(48)(x)
        for _ in range(5):
            x = x + 0.5 * linen.tanh(layer(x))
        return linen.Dense(1)(x)


def plain_function() -> Trained:
    """A function of (params, x) with softplus units and weights normalised to unit rows."""
    data = waves()
    keys = jax.random.split(KEY, 3)
    params = [
        {"w": jax.random.normal(k, (a, b), jnp.float32), "g": jnp.ones(b), "b": jnp.zeros(b)}
        for k, (a, b) in zip(keys, ((3, 48), (48, 48), (48, 1)), strict=True)
    ]
    params = jax.tree.map(lambda leaf: leaf.astype(jnp.float32), params)

    def apply(params, x):
        for i, layer in enumerate(params):
            x = x @ (layer["g"] * layer["w"] / jnp.linalg.norm(layer["w"], axis=0)) + layer["b"]
            x = jax.nn.softplus(x) if i < 2 else x
        return x

    params, score = train_jax(apply, params, data, rate=5e-3, epochs=60)
    return Trained(apply, params, data, 5e-3, "adam", score)


OTHERS: dict[str, Callable[[], Trained]] = {
    "MLP mish 80x4, blobs": lambda: mlp(blobs, (80,) * 4, nn.Mish),
    "MLP hardswish 64x3, moons": lambda: mlp(moons, (64,) * 3, nn.Hardswish),
    "MLP selu 64x6, friedman": lambda: mlp(friedman, (64,) * 6, nn.SELU, rate=1e-3),
    "MLP sines 64x2, waves": lambda: mlp(waves, (64, 64), Sine, rate=1e-3, epochs=60),
    "MLP relu6 100x2, breast cancer, momentum": lambda: mlp(
        lambda: table("breast_cancer"), (100, 100), nn.ReLU6, rate=0.01, optimizer="momentum"
    ),
    "MLP prelu 50x3, friedman": lambda: mlp(friedman, (50,) * 3, nn.PReLU),
    "MLP hardtanh 64x2, wine": lambda: mlp(lambda: table("wine"), (64, 64), nn.Hardtanh),
    "MLP relu 32-16-8, iris": lambda: mlp(lambda: table("iris"), (32, 16, 8), nn.ReLU, epochs=60),
    "MLP relu 300x3, moons, GD": lambda: mlp(
        moons, (300,) * 3, nn.ReLU, rate=0.1, optimizer="sgd", epochs=60
    ),
    "MLP relu 64x4, batch norm, blobs": normalised_batches,
    "MLP relu, Fourier features, moons": lambda: train_torch(Fourier(2, 2), moons()),
    "autoencoder gelu, digits": autoencoder,
    "highway, 6 layers, blobs": lambda: stack(blobs, 32, [Highway(32) for _ in range(6)]),
    "residual relu, 10 gains from zero, digits": lambda: stack(digits, 48, [Scaled(48) for _ in range(10)]),
    "residual silu, layer norm, 20 blocks, friedman": lambda: stack(
        friedman, 32, [Normalised(32, nn.SiLU, True) for _ in range(20)], rate=1e-3
    ),
    "residual relu, no norm, 6 blocks, blobs": lambda: stack(
        blobs, 40, [Normalised(40, nn.ReLU, False) for _ in range(6)], rate=1e-3
    ),
    "all layers seen by all, wine": lambda: train_torch(Concatenated(13, 3), table("wine")),
    "four experts, teacher": lambda: train_torch(Experts(5, 4), teacher(), rate=5e-3, epochs=60),
    "CNN relu, max pool, digits": pooled_cnn,
    "CNN hardswish, depthwise, digits": depthwise,
    "CNN mish, strides, group norm, digits": strided_cnn,
    "residual CNN, pre-activation, 8 blocks, digits": deep_residual_cnn,
    "residual CNN, squeezed channels, digits": squeezed_cnn,
    "1-D CNN relu, dilated, sequences": dilated,
    "vision transformer, 2 layers, digits": lambda: train_torch(Patches(2), digits(), epochs=20),
    "vision transformer, 6 layers, digits": lambda: train_torch(Patches(6), digits(), epochs=12),
    "largest of a set, sequences": lambda: train_torch(Pooled(), sequences(), epochs=20),
    "linen gated residual, RMS norm, 6 blocks, blobs": lambda: of_linen(RootMeanSquare(6), blobs()),
    "linen shared tanh layer, friedman": lambda: of_linen(Shared(), friedman()),
    "function, weight norm, softplus, waves": plain_function,
}
