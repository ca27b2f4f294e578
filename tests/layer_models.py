"""A small model for every kind of layer, in PyTorch and in JAX, with smooth activations and in float64."""

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import torch
from flax import nnx

POINTS, CLASSES = 6, 3
_RNG = np.random.default_rng(3)
VECTORS = _RNG.normal(size=(POINTS, 4))
IMAGES = _RNG.normal(size=(POINTS, 2, 4, 4))
TOKENS = _RNG.integers(0, 5, (POINTS, 3))
LABELS = np.array([0, 1, 2, 2, 1, 0])


class Attention(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(5, 4)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.head = torch.nn.Linear(4, CLASSES)

    def forward(self, x):
        h = self.tokens(x)
        return self.head(self.attention(h, h, h, need_weights=False)[0].mean(1))


class Transformer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens = torch.nn.Embedding(5, 4)
        self.block = torch.nn.TransformerEncoderLayer(
            4, 2, 8, dropout=0.0, activation="gelu", batch_first=True
        )
        self.head = torch.nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(self.block(self.tokens(x)).mean(1))


class Shared(torch.nn.Module):
    """One layer applied twice, and one weight under two names."""

    def __init__(self):
        super().__init__()
        self.first, self.again, self.head = (torch.nn.Linear(4, 4) for _ in range(3))
        self.again.weight = self.first.weight
        self.head = torch.nn.Linear(4, CLASSES)

    def forward(self, x):
        return self.head(torch.tanh(self.again(torch.tanh(self.first(torch.tanh(self.first(x)))))))


def _dense(*between):
    return torch.nn.Sequential(torch.nn.Linear(4, 4), *between, torch.nn.Linear(4, CLASSES))


def _convolution(*between):
    return torch.nn.Sequential(
        torch.nn.Conv2d(2, 4, 3), *between, torch.nn.Flatten(), torch.nn.Linear(16, CLASSES)
    )


def _batch_norm():
    model = _convolution(torch.nn.BatchNorm2d(4), torch.nn.Tanh())
    model(torch.as_tensor(IMAGES, dtype=torch.float32))
    return model


TORCH = {
    "linear": (lambda: _dense(torch.nn.Tanh()), VECTORS),
    "inplace": (lambda: _dense(torch.nn.SiLU(inplace=True)), VECTORS),
    "gelu": (lambda: _dense(torch.nn.GELU()), VECTORS),
    "layer norm": (lambda: _dense(torch.nn.LayerNorm(4), torch.nn.SiLU()), VECTORS),
    "convolution": (lambda: _convolution(torch.nn.Tanh()), IMAGES),
    "group norm": (lambda: _convolution(torch.nn.GroupNorm(2, 4), torch.nn.SiLU()), IMAGES),
    "batch norm": (_batch_norm, IMAGES),
    "attention and embedding": (Attention, TOKENS),
    "transformer": (Transformer, TOKENS),
    "shared weights": (Shared, VECTORS),
}


def torch_model(name):
    """A model of PyTorch, ready to be measured, and its inputs."""
    make, x = TORCH[name]
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = make().double().eval()
        # Norms begin with weights of one and biases of zero, at which mistakes can hide.
        for weight in model.parameters():
            weight.data += 0.3 * torch.randn_like(weight)
    return model, x


class Normalised(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.silu(nn.GroupNorm(2)(nn.Conv(4, (3, 3))(jnp.moveaxis(x, 1, -1))))
        x = nn.BatchNorm(use_running_average=True)(x).reshape(len(x), -1)
        return nn.Dense(CLASSES)(nn.gelu(nn.LayerNorm()(nn.Dense(4)(x))))


class Attentive(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        x = nn.MultiHeadDotProductAttention(2)(nn.Embed(5, 4)(tokens))
        return nn.Dense(CLASSES)(x.mean(1))


class SharedNNX(nnx.Module):
    def __init__(self):
        rngs = nnx.Rngs(0)
        self.first = nnx.Linear(4, 4, rngs=rngs, param_dtype=float)
        self.norm = nnx.BatchNorm(4, rngs=rngs, param_dtype=float, use_running_average=True)
        self.head = nnx.Linear(4, CLASSES, rngs=rngs, param_dtype=float)

    def __call__(self, x):
        return self.head(jnp.tanh(self.norm(self.first(jnp.tanh(self.first(x))))))


JAX = {
    "convolution, dense, norms": (Normalised, IMAGES),
    "attention and embedding": (Attentive, TOKENS),
    "shared weights": (SharedNNX, VECTORS),
}


def jax_model(name):
    """A model of Flax, its variables if it needs them, and its inputs."""
    make, x = JAX[name]
    model = make()
    if isinstance(model, nnx.Module):
        return model, None, x
    variables = model.init(jax.random.key(0), x)
    noise = np.random.default_rng(1)
    return model, jax.tree.map(lambda leaf: leaf + 0.3 * np.abs(noise.normal(size=leaf.shape)), variables), x
