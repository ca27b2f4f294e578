"""Networks of many kinds, trained until they work: what `benchmarks/diagnose.py` looks at."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch
from sklearn import datasets
from torch.nn import functional

Optimizer = str


class Data(NamedTuple):
    """Rows to train on and rows to score at; whole-number labels are classes."""

    x: np.ndarray
    y: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray

    @property
    def classes(self) -> int:
        return int(self.y.max()) + 1 if self.y.dtype.kind == "i" else 0


class Trained(NamedTuple):
    """A model after training, how it was trained, and how well it does."""

    model: Any
    params: Any
    data: Data
    learning_rate: float
    optimizer: Optimizer
    score: float  # accuracy, or the share of the variance explained, at rows that were held out


def _split(x: np.ndarray, y: np.ndarray, seed: int = 0) -> Data:
    order = np.random.default_rng(seed).permutation(len(x))
    x, y = x[order].astype(np.float32), y[order]
    y = y.astype(np.int64 if y.dtype.kind in "iu" else np.float32)
    held = len(x) // 5
    return Data(x[held:], y[held:], x[:held], y[:held])


def _standard(columns: np.ndarray) -> np.ndarray:
    return (columns - columns.mean(axis=0)) / columns.std(axis=0)


def digits() -> Data:
    """8 x 8 pictures as (1, 8, 8), between 0 and 1."""
    found = datasets.load_digits()
    return _split(found.data.reshape(-1, 1, 8, 8) / 16, found.target)


def table(name: str) -> Data:
    """One of scikit-learn's tables, columns and targets that are numbers standardised."""
    found = getattr(datasets, f"load_{name}")()
    y = found.target if name != "diabetes" else _standard(found.target[:, None])
    return _split(_standard(found.data), y)


def spirals() -> Data:
    """Two interleaved spirals in the plane."""
    rng = np.random.default_rng(1)
    label = rng.integers(0, 2, 1000)
    angle = 3.0 * np.sqrt(rng.uniform(size=1000)) + 0.3
    turned = angle * 2 + np.pi * label
    x = angle[:, None] * np.stack([np.cos(turned), np.sin(turned)], axis=1)
    return _split(_standard(x + 0.05 * rng.normal(size=x.shape)), label)


def waves() -> Data:
    """A smooth function of three numbers."""
    x = np.random.default_rng(2).normal(size=(800, 3))
    return _split(x, _standard(np.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:]))


def teacher() -> Data:
    """Four outputs of a random network with five inputs."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(800, 5))
    return _split(x, _standard(np.tanh(x @ rng.normal(size=(5, 16))) @ rng.normal(size=(16, 4))))


def sequences() -> Data:
    """Eight vectors of four numbers; the class is the place of the one with the largest first number."""
    x = np.random.default_rng(4).normal(size=(1500, 8, 4))
    return _split(x, x[:, :, 0].argmax(axis=1))


def running() -> Data:
    """Eight vectors of four numbers; a smooth function of their mean."""
    x = np.random.default_rng(8).normal(size=(1200, 8, 4))
    mean = x.mean(axis=1)
    return _split(x, _standard(np.sin(3 * mean[:, :1]) + mean[:, 1:2]))


def tokens() -> Data:
    """Twelve of thirty words; the class is the group of words that is said most often."""
    x = np.random.default_rng(9).integers(0, 30, size=(1500, 12))
    counts = np.stack([np.sum(x % 4 == group, axis=1) for group in range(4)], axis=1)
    return _split(x, counts.argmax(axis=1))


def blobs(classes: int = 6) -> Data:
    """Overlapping clouds in ten dimensions."""
    x, y = datasets.make_blobs(1200, 10, centers=classes, cluster_std=4.0, random_state=5)
    return _split(_standard(x), y)


def moons() -> Data:
    """Two half circles in the plane, with noise."""
    x, y = datasets.make_moons(1000, noise=0.15, random_state=6)
    return _split(_standard(x), y)


def friedman() -> Data:
    """Friedman's first function: five of ten numbers matter."""
    x, y = datasets.make_friedman1(1000, noise=0.5, random_state=7)
    return _split(_standard(x), _standard(y[:, None]))


def score(outputs: np.ndarray, data: Data) -> float:
    """Accuracy, or the share of the variance explained, at the rows held out."""
    if data.classes:
        return float((outputs.argmax(axis=1) == data.y_test).mean())
    left = np.mean((outputs - data.y_test.reshape(outputs.shape)) ** 2)
    return float(1 - left / np.var(data.y_test))


def train_torch(
    model: torch.nn.Module, data: Data, rate: float = 2e-3, epochs: int = 25, optimizer: Optimizer = "adam"
) -> Trained:
    """Minibatches of 64."""
    torch.manual_seed(0)
    x, y = torch.as_tensor(data.x), torch.as_tensor(data.y)
    rule = _torch_rule(model, rate, optimizer)
    model.train()
    for _ in range(epochs):
        for rows in torch.randperm(len(x)).split(64):
            if len(rows) < 2:
                continue
            rule.zero_grad()
            outputs = model(x[rows])
            if data.classes:
                loss = functional.cross_entropy(outputs, y[rows])
            else:
                loss = 0.5 * ((outputs - y[rows]) ** 2).sum() / len(rows)
            loss.backward()
            rule.step()
    model.eval()
    with torch.no_grad():
        outputs = model(torch.as_tensor(data.x_test)).numpy()
    return Trained(model, None, data, rate, optimizer, score(outputs, data))


def _torch_rule(model: torch.nn.Module, rate: float, optimizer: Optimizer) -> torch.optim.Optimizer:
    if optimizer == "adam":
        return torch.optim.Adam(model.parameters(), rate)
    return torch.optim.SGD(model.parameters(), rate, momentum=0.9 if optimizer == "momentum" else 0.0)


def train_jax(
    apply: Callable,
    params: Any,
    data: Data,
    rate: float = 2e-3,
    epochs: int = 25,
    optimizer: Optimizer = "adam",
) -> tuple[Any, float]:
    """Minibatches of 64; the weights and the score."""
    rules = {"adam": optax.adam(rate), "sgd": optax.sgd(rate), "momentum": optax.sgd(rate, 0.9)}
    rule = rules[optimizer]

    def loss(params: Any, x: jax.Array, y: jax.Array) -> jax.Array:
        outputs = apply(params, x)
        if data.classes:
            return optax.softmax_cross_entropy_with_integer_labels(outputs, y).mean()
        return 0.5 * jnp.sum((outputs - y) ** 2) / len(x)

    @jax.jit
    def step(params: Any, state: Any, x: jax.Array, y: jax.Array) -> tuple[Any, Any]:
        change, state = rule.update(jax.grad(loss)(params, x, y), state)
        return optax.apply_updates(params, change), state

    rng, state = np.random.default_rng(0), rule.init(params)
    for _ in range(epochs):
        order = rng.permutation(len(data.x))
        for rows in order[: len(order) // 64 * 64].reshape(-1, 64):
            params, state = step(params, state, data.x[rows], data.y[rows])
    return params, score(np.asarray(apply(params, data.x_test)), data)
