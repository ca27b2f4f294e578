"""Thirty healthy networks of kinds that had no part in any rule of `diagnose`."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import torch
from flax import linen, nnx
from healthy_models import KEY, mlp, of_finitewidth, of_linen
from other_healthy_models import pictures, stack
from torch import Tensor, nn
from trained_models import (
    Data,
    Trained,
    blobs,
    digits,
    friedman,
    moons,
    running,
    sequences,
    table,
    tokens,
    train_jax,
    train_torch,
    waves,
)

import finitewidth as fw


class Last(nn.Module):
    """A recurrent layer over rows, and a dense layer on its last state."""

    def __init__(self, layer: nn.Module, units: int, outputs: int):
        super().__init__()
        self.layer, self.head = layer, nn.Linear(units, outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = x[:, 0] if x.ndim == 4 else x
        return self.head(self.layer(x)[0][:, -1])


class ByHand(nn.Module):
    """A cell of a GRU, used row after row."""

    def __init__(self):
        super().__init__()
        self.cell, self.head = nn.GRUCell(8, 32), nn.Linear(32, 10)

    def forward(self, x: Tensor) -> Tensor:
        h = x.new_zeros(len(x), 32)
        for row in x[:, 0].unbind(1):
            h = self.cell(row, h)
        return self.head(h)


class Messages(nn.Module):
    """Every entry of a ring listens to its two neighbours, three times."""

    def __init__(self):
        super().__init__()
        self.enter = nn.Linear(4, 32)
        self.own = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.others = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        self.head = nn.Linear(256, 8)

    def forward(self, x: Tensor) -> Tensor:
        x = self.enter(x).relu()
        for own, others in zip(self.own, self.others, strict=True):
            x = (own(x) + others(x.roll(1, 1) + x.roll(-1, 1))).relu()
        return self.head(x.flatten(1))


class SumOfSet(nn.Module):
    """One network for every entry, summed, and one for the sum."""

    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(nn.Linear(4, 48), nn.GELU(), nn.Linear(48, 48))
        self.all = nn.Sequential(nn.Linear(48, 48), nn.GELU(), nn.Linear(48, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.all(self.each(x).sum(1))


class UNet(nn.Module):
    """Down to 4 x 4 and up again, with the fine pictures handed across."""

    def __init__(self):
        super().__init__()
        self.down, self.deep = nn.Conv2d(1, 12, 3, padding=1), nn.Conv2d(12, 24, 3, padding=1)
        self.up, self.last = nn.ConvTranspose2d(24, 12, 2, 2), nn.Conv2d(24, 1, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        fine = self.down(x.reshape(-1, 1, 8, 8)).relu()
        coarse = self.deep(nn.functional.avg_pool2d(fine, 2)).relu()
        return self.last(torch.cat([fine, self.up(coarse)], 1)).flatten(1)


class DenseBlock(nn.Module):
    """Convolutions that see all before them."""

    def __init__(self, channels: int, growth: int, layers: int):
        super().__init__()
        self.layers = nn.ModuleList(
            nn.Conv2d(channels + k * growth, growth, 3, padding=1) for k in range(layers)
        )

    def forward(self, x: Tensor) -> Tensor:
        for layer in self.layers:
            x = torch.cat([x, nn.functional.silu(layer(x))], 1)
        return x


class Inception(nn.Module):
    """Convolutions of three sizes beside each other."""

    def __init__(self, channels: int):
        super().__init__()
        self.branches = nn.ModuleList(nn.Conv2d(channels, 8, k, padding=k // 2) for k in (1, 3, 5))

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([branch(x).relu() for branch in self.branches], 1)


class NextBlock(nn.Module):
    """x + g * pointwise(gelu(pointwise(norm(depthwise(x))))), with a gain g that starts small."""

    def __init__(self, channels: int):
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 5, padding=2, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.up, self.down = nn.Linear(channels, 3 * channels), nn.Linear(3 * channels, channels)
        self.gain = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        y = self.norm(self.depthwise(x).movedim(1, -1))
        return x + (self.gain * self.down(nn.functional.gelu(self.up(y)))).movedim(-1, 1)


class GatedLinear(nn.Module):
    """nn.GLU between dense layers."""

    def __init__(self, features: int, outputs: int):
        super().__init__()
        self.net = nn.Sequential(
            nn.Linear(features, 96), nn.GLU(), nn.Linear(48, 96), nn.GLU(), nn.Linear(48, outputs)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class SpatialGates(nn.Module):
    """The rows of a picture weighed by a linear function of the other rows (gMLP)."""

    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Linear(8, 32), nn.Linear(32, 10)
        self.norms = nn.ModuleList(nn.LayerNorm(32) for _ in range(3))
        self.ups = nn.ModuleList(nn.Linear(32, 64) for _ in range(3))
        self.rows = nn.ModuleList(nn.Linear(8, 8) for _ in range(3))
        self.downs = nn.ModuleList(nn.Linear(32, 32) for _ in range(3))
        for rows in self.rows:
            nn.init.normal_(rows.weight, std=0.05)
            nn.init.ones_(rows.bias)

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x[:, 0])
        for norm, up, rows, down in zip(self.norms, self.ups, self.rows, self.downs, strict=True):
            value, weight = nn.functional.gelu(up(norm(x))).chunk(2, 2)
            x = x + down(value * rows(weight.mT).mT)
        return self.head(x.mean(1))


class Queries(nn.Module):
    """Four learned queries look at the rows of a picture."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.place = nn.Parameter(0.1 * torch.randn(8, 32))
        self.queries = nn.Parameter(torch.randn(4, 32))
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.head = nn.Sequential(nn.LayerNorm(128), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x: Tensor) -> Tensor:
        x = (self.embed(x[:, 0]) + self.place).relu()
        seen = self.attention(self.queries.expand(len(x), -1, -1), x, x, need_weights=False)[0]
        return self.head(seen.flatten(1))


class LinearAttention(nn.Module):
    """Attention without a softmax: positive features of queries and keys."""

    def __init__(self):
        super().__init__()
        self.embed, self.place = nn.Linear(4, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 8))

    def forward(self, x: Tensor) -> Tensor:
        x = self.embed(x) + self.place
        q, k = (nn.functional.elu(part(x)) + 1 for part in (self.query, self.key))
        mixed = q @ (k.mT @ self.value(x)) / (q @ k.sum(1)[:, :, None])
        return self.head((x + mixed).amax(1))


class Modulated(nn.Module):
    """A network whose units are scaled and shifted by functions of other inputs (FiLM)."""

    def __init__(self):
        super().__init__()
        self.first, self.second, self.head = nn.Linear(5, 48), nn.Linear(48, 48), nn.Linear(48, 1)
        self.scale, self.shift = nn.Linear(5, 48), nn.Linear(5, 48)

    def forward(self, x: Tensor) -> Tensor:
        own, other = x[:, :5], x[:, 5:]
        h = self.second(self.first(own).relu())
        return self.head(((1 + self.scale(other)) * h + self.shift(other)).relu())


class Maxout(nn.Module):
    """The largest of three linear functions."""

    def __init__(self, entering: int, leaving: int):
        super().__init__()
        self.linear = nn.Linear(entering, 3 * leaving)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).unflatten(1, (-1, 3)).amax(2)


class Bells(nn.Module):
    """Bells around trained centres."""

    def __init__(self):
        super().__init__()
        self.centres, self.head = nn.Parameter(torch.randn(40, 2)), nn.Linear(40, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.head(torch.exp(-2 * ((x[:, None] - self.centres) ** 2).sum(2)))


class Squares(nn.Module):
    """z + z^2 / 2."""

    def forward(self, x: Tensor) -> Tensor:
        return x + x.square() / 2


class Words(nn.Module):
    """The mean of the embeddings of the words, and a dense network."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(30, 24)
        self.net = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 4))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(self.embed(x.long()).mean(1))


class WideAndDeep(nn.Module):
    """A linear function plus a network."""

    def __init__(self, features: int, outputs: int):
        super().__init__()
        self.wide = nn.Linear(features, outputs)
        self.deep = nn.Sequential(
            nn.Linear(features, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU(), nn.Linear(16, outputs)
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.wide(x) + self.deep(x)


def back_again(model: nn.Module, noise: float, **training) -> Trained:
    """Pictures, with noise or without, to the same pictures."""
    data = digits()
    clean, held = data.x.reshape(-1, 64), data.x_test.reshape(-1, 64)
    generator = torch.Generator().manual_seed(0)
    rows, others = (
        part + noise * torch.randn(part.shape, generator=generator).numpy() for part in (clean, held)
    )
    return train_torch(model, Data(rows, clean, others, held), **training)


def convolutional_autoencoder() -> Trained:
    model = nn.Sequential(
        nn.Unflatten(1, (1, 8, 8)), nn.Conv2d(1, 12, 3, 2, 1), nn.LeakyReLU(), nn.Conv2d(12, 6, 3, 2, 1),
        nn.LeakyReLU(), nn.ConvTranspose2d(6, 12, 2, 2), nn.LeakyReLU(), nn.ConvTranspose2d(12, 1, 2, 2),
        nn.Flatten(),
    )  # fmt: skip
    return back_again(model, 0.0, epochs=20)


def branched() -> Trained:
    return pictures(
        Inception(1), nn.AvgPool2d(2), Inception(24), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(96, 10),
        epochs=20,
    )  # fmt: skip


def densely_connected() -> Trained:
    return pictures(
        nn.Conv2d(1, 8, 3, padding=1), nn.SiLU(), DenseBlock(8, 8, 3), nn.Conv2d(32, 16, 1), nn.AvgPool2d(2),
        DenseBlock(16, 8, 2), nn.AvgPool2d(4), nn.Flatten(), nn.Linear(32, 10), epochs=20,
    )  # fmt: skip


def next_cnn() -> Trained:
    blocks = (NextBlock(24) for _ in range(4))
    return pictures(
        nn.Conv2d(1, 24, 2, 2), *blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 10), epochs=20
    )


def maxout() -> Trained:
    return stack(lambda: table("wine"), 32, [Maxout(32, 32), Maxout(32, 32)])


class LinenRecurrent(linen.Module):
    """A recurrent cell over rows, and a dense layer on its last state."""

    cell: Callable
    units: int
    outputs: int

    @linen.compact
    def __call__(self, x):
        x = x[:, 0] if x.ndim == 4 else x
        return linen.Dense(self.outputs)(linen.RNN(self.cell(self.units))(x)[:, -1])


class LinenMixer(linen.Module):
    """Dense layers over the rows of a picture and over its columns."""

    @linen.compact
    def __call__(self, x):
        x = linen.Dense(24)(x[:, 0])
        for _ in range(3):
            y = jnp.swapaxes(linen.LayerNorm()(x), 1, 2)
            x = x + jnp.swapaxes(linen.Dense(8)(linen.silu(linen.Dense(16)(y))), 1, 2)
            x = x + linen.Dense(24)(linen.silu(linen.Dense(48)(linen.LayerNorm()(x))))
        return linen.Dense(10)(x.mean(1))


class LinenPostNorm(linen.Module):
    """A norm behind every activation."""

    @linen.compact
    def __call__(self, x):
        for _ in range(5):
            x = linen.LayerNorm()(linen.relu(linen.Dense(48)(x)))
        return linen.Dense(6)(x)


class NnxAttention(nnx.Module):
    """Two blocks of attention, each followed by two dense layers."""

    def __init__(self, rngs: nnx.Rngs):
        self.embed, self.head = nnx.Linear(4, 32, rngs=rngs), nnx.Linear(32, 8, rngs=rngs)
        self.place = nnx.Param(0.1 * jax.random.normal(KEY, (8, 32), jnp.float32))
        make = lambda: nnx.MultiHeadAttention(4, 32, decode=False, rngs=rngs)
        self.attentions = nnx.List([make() for _ in range(2)])
        self.ups = nnx.List([nnx.Linear(32, 64, rngs=rngs) for _ in range(2)])
        self.downs = nnx.List([nnx.Linear(64, 32, rngs=rngs) for _ in range(2)])
        self.norms = nnx.List([nnx.LayerNorm(32, rngs=rngs) for _ in range(4)])

    def __call__(self, x):
        x = self.embed(x) + self.place[...]
        for i in range(2):
            x = x + self.attentions[i](self.norms[2 * i](x))
            x = x + self.downs[i](nnx.relu(self.ups[i](self.norms[2 * i + 1](x))))
        return self.head(x.mean(1))


def nnx_attention() -> Trained:
    data = sequences()
    graph, params, rest = nnx.split(NnxAttention(nnx.Rngs(0)), nnx.Param, ...)
    apply = lambda p, x: nnx.merge(graph, p, rest)(x)
    params, score = train_jax(apply, params, data, rate=3e-3, epochs=25)
    return Trained(nnx.merge(graph, params, rest), None, data, 3e-3, "adam", score)


def equinox_cnn() -> Trained:
    data, keys = digits(), jax.random.split(KEY, 4)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(1, 16, 3, padding=1, key=keys[0], dtype=jnp.float32),
            eqx.nn.GroupNorm(4, 16, dtype=jnp.float32),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.AvgPool2d(2, 2),
            eqx.nn.Conv2d(16, 24, 3, padding=1, key=keys[1], dtype=jnp.float32),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.AvgPool2d(4, 4),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(24, 10, key=keys[2], dtype=jnp.float32),
        ]
    )
    params, rest = eqx.partition(model, eqx.is_inexact_array)
    apply = lambda p, x: jax.vmap(eqx.combine(p, rest))(x)
    params, score = train_jax(apply, params, data, rate=3e-3, epochs=12)
    return Trained(eqx.combine(params, rest), None, data, 3e-3, "adam", score)


def flat_digits() -> Data:
    data = digits()
    return data._replace(x=data.x.reshape(-1, 64), x_test=data.x_test.reshape(-1, 64))


def row_by_row(cell: Callable) -> Trained:
    return of_linen(LinenRecurrent(cell, 32, 10), digits(), rate=5e-3, epochs=12)


UNSEEN: dict[str, Callable[[], Trained]] = {
    "LSTM, sequences": lambda: train_torch(
        Last(nn.LSTM(4, 40, batch_first=True), 40, 8), sequences(), rate=5e-3, epochs=25
    ),
    "GRU both ways, sequences": lambda: train_torch(
        Last(nn.GRU(4, 32, bidirectional=True, batch_first=True), 64, 8), sequences(), rate=5e-3, epochs=25
    ),
    "RNN tanh, running mean": lambda: train_torch(
        Last(nn.RNN(4, 32, batch_first=True), 32, 1), running(), epochs=25
    ),
    "LSTM, 2 layers, rows of digits": lambda: train_torch(
        Last(nn.LSTM(8, 32, 2, batch_first=True), 32, 10), digits(), rate=5e-3, epochs=12
    ),
    "GRU cell by hand, rows of digits": lambda: train_torch(ByHand(), digits(), rate=5e-3, epochs=12),
    "messages on a ring, sequences": lambda: train_torch(Messages(), sequences(), epochs=20),
    "sum over a set, running mean": lambda: train_torch(SumOfSet(), running(), epochs=25),
    "U-net, noise taken from digits": lambda: back_again(UNet(), 0.2, epochs=10),
    "convolutional autoencoder, digits": convolutional_autoencoder,
    "CNN silu, densely connected, digits": densely_connected,
    "CNN relu, branches of three sizes, digits": branched,
    "CNN gelu, large depthwise kernels, 4 blocks, digits": next_cnn,
    "gated linear units, blobs": lambda: train_torch(GatedLinear(10, 6), blobs()),
    "rows weighed by rows, 3 blocks, digits": lambda: train_torch(SpatialGates(), digits(), epochs=20),
    "four learned queries, digits": lambda: train_torch(Queries(), digits(), epochs=15),
    "attention without softmax, sequences": lambda: train_torch(
        LinearAttention(), sequences(), rate=5e-3, epochs=25
    ),
    "units scaled by other inputs, friedman": lambda: train_torch(Modulated(), friedman(), epochs=40),
    "largest of three, wine": maxout,
    "bells, moons": lambda: train_torch(Bells(), moons(), rate=1e-2, epochs=30),
    "MLP z + z^2/2, 32x2, waves": lambda: mlp(waves, (32, 32), Squares, epochs=40),
    "mean of embeddings, tokens": lambda: train_torch(Words(), tokens(), rate=5e-3, epochs=20),
    "linear and deep, breast cancer": lambda: train_torch(WideAndDeep(30, 2), table("breast_cancer")),
    "MLP relu 1024x2 (1,100,000), digits": lambda: mlp(digits, (1024, 1024), nn.ReLU, rate=5e-4, epochs=6),
    "linen LSTM, sequences": lambda: of_linen(
        LinenRecurrent(linen.OptimizedLSTMCell, 40, 8), sequences(), rate=5e-3, epochs=35
    ),
    "linen GRU, rows of digits": lambda: row_by_row(linen.GRUCell),
    "linen mixer silu, 3 blocks, digits": lambda: of_linen(LinenMixer(), digits(), rate=3e-3, epochs=12),
    "nnx transformer relu, sequences": nnx_attention,
    "equinox CNN relu, group norm, digits": equinox_cnn,
    "finitewidth MLP relu 128x8, digits": lambda: of_finitewidth(
        fw.MLP((128,) * 8, "relu", C_b=0.0, C_W=2.0, n_out=10), flat_digits(), 1e-3, "adam"
    ),
    "linen MLP relu 48x5, norm behind, blobs": lambda: of_linen(LinenPostNorm(), blobs()),
}
