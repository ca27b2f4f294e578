"""Small networks in every framework, trained on digits: healthy ones, and one for every fault."""

from typing import Any, NamedTuple

import equinox as eqx
import flax.linen as linen
import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from flax import nnx
from sklearn.datasets import load_digits

import finitewidth as fw

WIDTH, CLASSES, STEPS = 32, 10, 60
# The networks are small: threads would wait for each other, and for the other worker.
torch.set_num_threads(1)


class Trained(NamedTuple):
    """A model as it would be handed to `fw.diagnose`, with its weights where it does not carry them."""

    model: Any
    params: Any = None


def digits(points: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """Pictures (points, 64) between 0 and 1, and their digits."""
    data = load_digits()
    return (data.data[:points] / 16).astype(np.float32), data.target[:points]


class Linen(linen.Module):
    @linen.compact
    def __call__(self, x):
        x = jnp.tanh(linen.Dense(WIDTH)(x))
        return linen.Dense(CLASSES)(jnp.tanh(linen.Dense(WIDTH)(x)))


class Nnx(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(64, WIDTH, rngs=rngs)
        self.second = nnx.Linear(WIDTH, WIDTH, rngs=rngs)
        self.last = nnx.Linear(WIDTH, CLASSES, rngs=rngs)

    def __call__(self, x):
        return self.last(nnx.gelu(self.second(nnx.gelu(self.first(x)))))


def train_torch(model: torch.nn.Module, rate: float = 3e-3, steps: int = STEPS, data=None) -> Trained:
    """Adam on all points at once."""
    x, y = (torch.as_tensor(part) for part in (digits() if data is None else data))
    rule = torch.optim.Adam(model.parameters(), rate)
    for _ in range(steps):
        rule.zero_grad()
        torch.nn.functional.cross_entropy(model(x), y).backward()
        rule.step()
    return Trained(model.eval())


def train_jax(apply, params) -> Any:
    """Adam on all points at once; the weights after it."""
    x, y = (jnp.asarray(part) for part in digits())
    rule = optax.adam(3e-3)

    def loss(params):
        return optax.softmax_cross_entropy_with_integer_labels(apply(params, x), y).mean()

    @jax.jit
    def train(params):
        def step(carry, _):
            params, state = carry
            change, state = rule.update(jax.grad(loss)(params), state)
            return (optax.apply_updates(params, change), state), None

        return jax.lax.scan(step, (params, rule.init(params)), length=STEPS)[0][0]

    return train(params)


def of_torch() -> Trained:
    torch.manual_seed(0)
    layers = torch.nn.Sequential(
        torch.nn.Linear(64, WIDTH), torch.nn.ReLU(inplace=True), torch.nn.Linear(WIDTH, WIDTH),
        torch.nn.ReLU(inplace=True), torch.nn.Linear(WIDTH, CLASSES),
    )  # fmt: skip
    return train_torch(layers)


def of_linen() -> Trained:
    model = Linen()
    variables = model.init(jax.random.key(0), digits(1)[0])
    return Trained(model, train_jax(model.apply, variables))


def of_nnx() -> Trained:
    graph, params, rest = nnx.split(Nnx(nnx.Rngs(0)), nnx.Param, ...)
    trained = train_jax(lambda p, x: nnx.merge(graph, p, rest)(x), params)
    return Trained(nnx.merge(graph, trained, rest))


def of_equinox() -> Trained:
    model = eqx.nn.MLP(64, CLASSES, WIDTH, 2, jax.nn.silu, key=jax.random.key(0), dtype=jnp.float32)
    params, rest = eqx.partition(model, eqx.is_inexact_array)
    trained = train_jax(lambda p, x: jax.vmap(eqx.combine(p, rest))(x), params)
    return Trained(eqx.combine(trained, rest))


def of_finitewidth() -> Trained:
    net = fw.MLP((WIDTH, WIDTH), "tanh", n_out=CLASSES)
    return Trained(net, train_jax(net.apply, net.init(jax.random.key(0), 64, dtype=jnp.float32)))


FRAMEWORKS = {
    "torch": of_torch,
    "linen": of_linen,
    "nnx": of_nnx,
    "equinox": of_equinox,
    "finitewidth": of_finitewidth,
}


def deep(
    activation: type, layers: int, gain: float, width: int = WIDTH, bias: float = 0.0
) -> torch.nn.Module:
    """A stack of dense layers whose weights have the standard deviation gain / sqrt(fan-in)."""
    torch.manual_seed(1)
    parts: list[torch.nn.Module] = []
    fan_in = 64
    for _ in range(layers):
        parts += [torch.nn.Linear(fan_in, width), activation()]
        fan_in = width
    model = torch.nn.Sequential(*parts, torch.nn.Linear(width, CLASSES))
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.normal_(layer.weight, std=gain / layer.in_features**0.5)
            torch.nn.init.constant_(layer.bias, bias)
    return model.eval()
