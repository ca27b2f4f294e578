"""Thirty healthy networks: of kinds, sizes, tasks and data that no threshold of `diagnose` was chosen on."""

import itertools
from collections.abc import Callable

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx
from torch import Tensor, nn
from trained_models import (
    Data,
    Trained,
    digits,
    sequences,
    spirals,
    table,
    teacher,
    train_jax,
    train_torch,
    waves,
)

import finitewidth as fw

KEY = jax.random.key(0)


def dense(data: Data, widths: tuple[int, ...], activation: type[nn.Module]) -> nn.Sequential:
    """A dense stack with PyTorch's own initialisation."""
    sizes = (int(np.prod(data.x.shape[1:])), *widths)
    layers = [part for a, b in itertools.pairwise(sizes) for part in (nn.Linear(a, b), activation())]
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(sizes[-1], data.classes or data.y.shape[1]))


def mlp(
    make: Callable[[], Data], widths: tuple[int, ...], activation: type[nn.Module], **training
) -> Trained:
    data = make()
    return train_torch(dense(data, widths, activation), data, **training)


def cnn(activation: type[nn.Module], norm: bool) -> Trained:
    parts: list[nn.Module] = []
    for entering, leaving in ((1, 16), (16, 32)):
        parts += [nn.Conv2d(entering, leaving, 3, padding=1)]
        parts += [nn.BatchNorm2d(leaving)] if norm else []
        parts += [activation(), nn.AvgPool2d(2)]
    model = nn.Sequential(*parts, nn.Flatten(), nn.Linear(128, 64), activation(), nn.Linear(64, 10))
    return train_torch(model, digits(), epochs=10)


class Block(nn.Module):
    """x + f(x), convolutions with batch statistics."""

    def __init__(self, channels: int):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU(inplace=True),
            nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return (x + self.inner(x)).relu()


def residual_cnn() -> Trained:
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), *(Block(16) for _ in range(5)), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(16, 10),
    )  # fmt: skip
    return train_torch(model, digits(), epochs=8)


class Normalised(nn.Module):
    """x + f(norm(x))."""

    def __init__(self, width: int, activation: type[nn.Module], norm: bool):
        super().__init__()
        self.norm = nn.LayerNorm(width) if norm else nn.Identity()
        self.up, self.act, self.down = nn.Linear(width, 2 * width), activation(), nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.up(self.norm(x))))


def residual_mlp(make: Callable[[], Data], blocks: int, activation: type[nn.Module], norm: bool) -> Trained:
    data = make()
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(int(np.prod(data.x.shape[1:])), 48),
        *(Normalised(48, activation, norm) for _ in range(blocks)), nn.LayerNorm(48),
        nn.Linear(48, data.classes or data.y.shape[1]),
    )  # fmt: skip
    return train_torch(model, data, epochs=20)


class Rows(nn.Module):
    """The rows of a picture, or the entries of a sequence, as tokens of a transformer."""

    def __init__(self, features: int, tokens: int, classes: int, norm_first: bool, activation: str):
        super().__init__()
        self.embed = nn.Linear(features, 32)
        self.place = nn.Parameter(0.1 * torch.randn(tokens, 32))
        layer = nn.TransformerEncoderLayer(
            32, 4, 64, dropout=0.0, activation=activation, batch_first=True, norm_first=norm_first
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, classes)

    def forward(self, x: Tensor) -> Tensor:
        x = x.reshape(len(x), self.place.shape[0], -1)
        return self.head(self.encoder(self.embed(x) + self.place).mean(1))


class Mixer(nn.Module):
    """One dense layer over the rows of a picture and one over its columns, twice."""

    def __init__(self):
        super().__init__()
        self.across = nn.ModuleList(Normalised(8, nn.GELU, True) for _ in range(2))
        self.down = nn.ModuleList(Normalised(8, nn.GELU, True) for _ in range(2))
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, 0]
        for across, down in zip(self.across, self.down, strict=True):
            x = down(across(x).mT).mT
        return self.head(x.flatten(1))


class Gated(nn.Module):
    """Values times gates."""

    def __init__(self, features: int, outputs: int):
        super().__init__()
        self.values, self.gates = nn.Linear(features, 64), nn.Linear(features, 64)
        self.head = nn.Linear(64, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.values(x) * self.gates(x).sigmoid())


class LinenMLP(linen.Module):
    widths: tuple[int, ...]
    outputs: int

    @linen.compact
    def __call__(self, x):
        for width in self.widths:
            x = linen.gelu(linen.Dense(width)(x))
        return linen.Dense(self.outputs)(x)


class LinenCNN(linen.Module):
    groups: bool = False

    @linen.compact
    def __call__(self, x):
        x = linen.silu(linen.Conv(16, (3, 3))(jnp.moveaxis(x, 1, -1)))
        for _ in range(2):
            y = linen.Conv(16, (3, 3))(x)
            y = linen.GroupNorm(4)(y) if self.groups else y
            x = x + linen.silu(y) if self.groups else linen.avg_pool(linen.silu(y), (2, 2), (2, 2))
        return linen.Dense(10)(x.reshape(len(x), -1))


class LinenAttention(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = linen.Dense(32)(x) + self.param("place", linen.initializers.normal(0.1), (8, 32))
        x = x + linen.MultiHeadDotProductAttention(4)(linen.LayerNorm()(x))
        x = x + linen.Dense(32)(linen.gelu(linen.Dense(64)(linen.LayerNorm()(x))))
        return linen.Dense(8)(x.mean(1))


def of_linen(model: linen.Module, data: Data, **training) -> Trained:
    variables = model.init(KEY, data.x[:1])
    params, score = train_jax(model.apply, variables, data, **training)
    return Trained(model, params, data, training.get("rate", 2e-3), "adam", score)


class NnxResidual(nnx.Module):
    def __init__(self, features: int, outputs: int, rngs: nnx.Rngs):
        self.first, self.last = nnx.Linear(features, 32, rngs=rngs), nnx.Linear(32, outputs, rngs=rngs)
        self.blocks = nnx.List([nnx.Linear(32, 32, rngs=rngs) for _ in range(4)])

    def __call__(self, x):
        x = self.first(x)
        for block in self.blocks:
            x = x + 0.5 * nnx.silu(block(x))
        return self.last(x)


class NnxMLP(nnx.Module):
    def __init__(self, features: int, outputs: int, rngs: nnx.Rngs):
        self.layers = nnx.List(
            [nnx.Linear(a, b, rngs=rngs) for a, b in ((features, 48), (48, 48), (48, outputs))]
        )

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = nnx.tanh(layer(x))
        return self.layers[-1](x)


def of_nnx(kind: type, data: Data, **training) -> Trained:
    model = kind(data.x.shape[1], data.classes or data.y.shape[1], nnx.Rngs(0))
    graph, params, rest = nnx.split(model, nnx.Param, ...)
    params, score = train_jax(lambda p, x: nnx.merge(graph, p, rest)(x), params, data, **training)
    return Trained(nnx.merge(graph, params, rest), None, data, training.get("rate", 2e-3), "adam", score)


def of_equinox(data: Data, width: int, depth: int, activation: Callable, **training) -> Trained:
    flat = data._replace(x=data.x.reshape(len(data.x), -1), x_test=data.x_test.reshape(len(data.x_test), -1))
    model = eqx.nn.MLP(
        flat.x.shape[1], data.classes or data.y.shape[1], width, depth, activation, key=KEY, dtype=jnp.float32
    )
    params, rest = eqx.partition(model, eqx.is_inexact_array)
    apply = lambda p, x: jax.vmap(eqx.combine(p, rest))(x)
    params, score = train_jax(apply, params, flat, **training)
    return Trained(eqx.combine(params, rest), None, flat, training.get("rate", 2e-3), "adam", score)


def of_finitewidth(net: fw.MLP, data: Data, rate: float, optimizer: str) -> Trained:
    params = net.init(KEY, data.x.shape[1], dtype=jnp.float32)
    params, score = train_jax(net.apply, params, data, rate=rate, optimizer=optimizer)
    return Trained(net, params, data, rate, optimizer, score)


HEALTHY: dict[str, Callable[[], Trained]] = {
    "MLP tanh 64x2, wine": lambda: mlp(lambda: table("wine"), (64, 64), nn.Tanh),
    "MLP gelu 128x3, digits": lambda: mlp(digits, (128,) * 3, nn.GELU),
    "MLP silu 64x4, diabetes, momentum": lambda: mlp(
        lambda: table("diabetes"), (64,) * 4, nn.SiLU, rate=0.01, optimizer="momentum", epochs=60
    ),
    "MLP elu 64x3, breast cancer": lambda: mlp(lambda: table("breast_cancer"), (64,) * 3, nn.ELU),
    "MLP gelu 784x2 (700,000), digits": lambda: mlp(digits, (784, 784), nn.GELU, rate=5e-4, epochs=8),
    "MLP softplus 32x2, waves": lambda: mlp(waves, (32, 32), nn.Softplus, rate=5e-3, epochs=60),
    "MLP sigmoid 64, wine": lambda: mlp(lambda: table("wine"), (64,), nn.Sigmoid, rate=5e-3),
    "MLP leaky relu 100x5, four outputs": lambda: mlp(
        teacher, (100,) * 5, nn.LeakyReLU, rate=1e-3, epochs=40
    ),
    "MLP relu 8, iris": lambda: mlp(lambda: table("iris"), (8,), nn.ReLU, rate=1e-2, epochs=80),
    "MLP tanh 256x2, spirals, GD": lambda: mlp(
        spirals, (256, 256), nn.Tanh, rate=0.1, optimizer="sgd", epochs=150
    ),
    "linear, diabetes": lambda: mlp(lambda: table("diabetes"), (), nn.ReLU, rate=0.01, optimizer="sgd"),
    "CNN gelu, digits": lambda: cnn(nn.GELU, False),
    "CNN silu, batch norm, digits": lambda: cnn(nn.SiLU, True),
    "CNN tanh, digits": lambda: cnn(nn.Tanh, False),
    "residual CNN, batch norm, digits": residual_cnn,
    "residual MLP gelu, layer norm, 8 blocks, digits": lambda: residual_mlp(digits, 8, nn.GELU, True),
    "residual MLP tanh, 12 blocks, spirals": lambda: residual_mlp(spirals, 12, nn.Tanh, False),
    "transformer, norm first, gelu, digits": lambda: train_torch(
        Rows(8, 8, 10, True, "gelu"), digits(), epochs=20
    ),
    "transformer, norm last, relu, sequences": lambda: train_torch(
        Rows(4, 8, 8, False, "relu"), sequences(), epochs=15
    ),
    "mixer gelu, digits": lambda: train_torch(Mixer(), digits(), epochs=20, rate=5e-3),
    "gated, four outputs": lambda: train_torch(Gated(5, 4), teacher(), rate=5e-3, epochs=60),
    "linen MLP gelu 64x3, wine": lambda: of_linen(LinenMLP((64,) * 3, 3), table("wine")),
    "linen CNN silu, digits": lambda: of_linen(LinenCNN(), digits(), epochs=10),
    "linen residual CNN, group norm, digits": lambda: of_linen(LinenCNN(True), digits(), epochs=5),
    "linen attention, sequences": lambda: of_linen(LinenAttention(), sequences(), rate=5e-3, epochs=15),
    "nnx residual silu, four outputs": lambda: of_nnx(NnxResidual, teacher(), rate=5e-3, epochs=40),
    "nnx MLP tanh, breast cancer": lambda: of_nnx(NnxMLP, table("breast_cancer")),
    "equinox MLP silu 64x4, waves": lambda: of_equinox(waves(), 64, 4, jax.nn.silu, rate=5e-3, epochs=60),
    "equinox MLP gelu 512x2, digits": lambda: of_equinox(digits(), 512, 2, jax.nn.gelu, rate=1e-3, epochs=8),
    "finitewidth MLP tanh 64x4, diabetes, GD": lambda: of_finitewidth(
        fw.MLP((64,) * 4, "tanh"), table("diabetes"), 0.05, "sgd"
    ),
}
