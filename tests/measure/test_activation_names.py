"""An activation is known by its values, however it is written, and nothing else is taken for one."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
import torch.nn.functional as F

from finitewidth.measure.jax.sites import This, program
from finitewidth.measure.specimen import specimen

X = np.random.default_rng(5).normal(size=(6, 4))
PARAMS = {"w": np.eye(4), "b": np.ones(4), "v": np.ones((4, 3))}

IN_JAX = {
    "relu": [
        jax.nn.relu,
        lambda z: jnp.maximum(z, 0),
        lambda z: jnp.where(z > 0, z, 0.0),
        lambda z: (z + abs(z)) / 2,
    ],
    "gelu": [
        jax.nn.gelu,
        lambda z: jax.nn.gelu(z, approximate=False),
        lambda z: z * jax.scipy.stats.norm.cdf(z),
    ],
    "silu": [jax.nn.silu, lambda z: z / (1 + jnp.exp(-z))],
    "tanh": [jnp.tanh, lambda z: 2 * jax.nn.sigmoid(2 * z) - 1],
    "sigmoid": [jax.nn.sigmoid, lambda z: 0.5 * (1 + jnp.tanh(z / 2))],
    "leaky_relu": [jax.nn.leaky_relu, lambda z: jnp.maximum(z, 0.2 * z)],
    "elu": [jax.nn.elu],
    "selu": [jax.nn.selu],
    "softplus": [jax.nn.softplus],
    "mish": [jax.nn.mish],
    "relu6": [jax.nn.relu6],
    "hard_tanh": [jax.nn.hard_tanh, lambda z: jnp.clip(z, -1, 1)],
    "hard_sigmoid": [jax.nn.hard_sigmoid],
    "hard_swish": [jax.nn.hard_silu],
    "softsign": [jax.nn.soft_sign],
    "erf": [jax.lax.erf],
    "sin": [jnp.sin],
    None: [lambda z: z, lambda z: 3 * z + 1, lambda z: z**2, jnp.exp, jax.nn.softmax, jnp.abs],
}

IN_TORCH = {
    "relu": [F.relu, torch.relu, torch.relu_, lambda z: z.clamp(min=0), lambda z: torch.where(z > 0, z, 0.0)],
    "gelu": [F.gelu, lambda z: 0.5 * z * (1 + torch.tanh(0.7978845608 * (z + 0.044715 * z**3)))],
    "silu": [F.silu, lambda z: z * z.sigmoid()],
    "tanh": [torch.tanh, lambda z: z.tanh_(), F.tanh],
    "sigmoid": [torch.sigmoid, lambda z: 1 / (1 + (-z).exp())],
    "leaky_relu": [F.leaky_relu, lambda z: torch.maximum(z, 0.2 * z)],
    "elu": [F.elu, F.celu],
    "hard_tanh": [F.hardtanh, lambda z: z.clamp(-1, 1)],
    "softplus": [F.softplus],
    None: [lambda z: z, lambda z: z**2, torch.exp, lambda z: z.softmax(-1), torch.abs],
}


def normalised(z):
    """With the guard against negative variances that some libraries have; it is no ReLU."""
    return (z - z.mean(-1)[..., None]) / (z.var(-1).clip(0)[..., None] + 1e-6) ** 0.5


def forms(functions, norm, reshaped):
    """Every function by itself, after a norm, and on another shape."""
    for f in functions:
        yield from (f, lambda z, f=f: f(norm(z)), lambda z, f=f: reshaped(f, z))


@pytest.mark.parametrize("name", IN_JAX)
def test_in_jax(name):
    functions = [*IN_JAX[name], jax.jit(IN_JAX[name][0])]
    between = list(forms(functions, normalised, lambda f, z: f(z.reshape(-1, 1, 4)).reshape(-1, 4)))

    def model(p, x):
        for function in between:
            x = function(x @ p["w"] + p["b"])
        return x @ p["v"]

    measured = specimen(model, X, params=PARAMS)
    sites = program.eval_shape(This(measured.apply), measured.params, X, np.zeros((6, 3)))[1]
    assert [site.activation for site in sites] == [name] * len(between) + [None]


class Chain(torch.nn.Module):
    def __init__(self, between):
        super().__init__()
        self.between = between
        self.layer, self.last = torch.nn.Linear(4, 4), torch.nn.Linear(4, 3)

    def forward(self, x):
        for function in self.between:
            x = function(self.layer(x))
        return self.last(x)


@pytest.mark.parametrize("name", IN_TORCH)
def test_in_pytorch(name):
    norm = lambda z: F.layer_norm(z, (4,))
    between = list(forms(IN_TORCH[name], norm, lambda f, z: f(z.view(-1, 2, 2)).flatten(1)))
    sites = specimen(Chain(between), X).look(np.ones((6, 3), np.float32))
    assert [site.activation for site in sites] == [name] * len(between) + [None]
