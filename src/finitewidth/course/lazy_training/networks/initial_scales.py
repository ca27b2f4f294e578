"""One network trained from initial weights of several sizes: rich for small ones, lazy for large ones."""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from finitewidth._base.checks import as_targets, check_key, check_positive, check_whole
from finitewidth._base.follow import follow
from finitewidth.architecture.layer import Layer
from finitewidth.networks.models import Apply, Model, as_model, as_points, check_arguments, rate_tree
from finitewidth.networks.training.descent import Descent, Weights, gradient_descent
from finitewidth.networks.training.optimizers import Optimizer
from finitewidth.networks.training.training import DivergenceError


class ScaleSweep(NamedTuple):
    """Networks trained from several initial scales."""

    scales: Float[np.ndarray, " scales"]
    """What the initial weights were multiplied by."""
    train_losses: Float[np.ndarray, " scales"]
    """Mean over points and outputs of the squared error, halved, at the end."""
    test_losses: Float[np.ndarray, " scales"]
    """The same on the test points."""
    motion: Float[np.ndarray, " scales"]
    """|w - w_0| / |w_0| at the end."""


class Task(NamedTuple):
    """A task with known answers: training and test points with their labels."""

    x: Float[np.ndarray, "train n_in"]
    y: Float[np.ndarray, "train 1"]
    x_test: Float[np.ndarray, "test n_in"]
    y_test: Float[np.ndarray, "test 1"]


def teacher_task(
    key: PRNGKeyArray,
    *,
    n_in: int = 20,
    points: int = 300,
    test: int = 1000,
    neurons: int = 3,
    noise: float = 0.0,
) -> Task:
    """Labels of a few ReLU neurons: a task on which learning features pays.

    Inputs are standard normal. The teacher is a sum of neurons with weights of length one and output
    weights 1 and -1 in turns, divided by its standard deviation on the test points. Training labels get
    Gaussian noise of the given size.
    """
    check_key(key)
    for name, value in (("n_in", n_in), ("points", points), ("test", test), ("neurons", neurons)):
        check_whole(name, value)
    keys = jax.random.split(key, 3)
    weights = np.asarray(jax.random.normal(keys[0], (neurons, n_in)))
    weights = weights / np.linalg.norm(weights, axis=1, keepdims=True)
    signs = (-1.0) ** np.arange(neurons)
    x = np.asarray(jax.random.normal(keys[1], (points + test, n_in)))
    y = np.maximum(x @ weights.T, 0) @ signs
    y = (y - y[points:].mean()) / y[points:].std()
    y[:points] += noise * np.asarray(jax.random.normal(keys[2], (points,)))
    return Task(x[:points], y[:points, None], x[points:], y[points:, None])


def train_at_scales(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    task: Task,
    scales: Sequence[float],
    *,
    steps: int,
    edge: float = 1.0,
    rates: PyTree | None = None,
) -> ScaleSweep:
    r"""Train one network by gradient descent from its weights times each scale.

    The outputs of the start are taken away, so that training starts at zero at every scale. The loss is
    half the mean square error. The step is $\eta=$ `edge` $/\lambda$ with the largest eigenvalue of the
    tangent kernel over the number of points, at the scaled weights or at scale one, whichever is larger:
    weights that start small grow to about the size that the labels need.

    Parameters
    ----------
    apply_or_net
        A network, or any function of (params, x).
    params
        Weights at scale one.
    task
        `Task(x, y, x_test, y_test)` of your own data, or `teacher_task(key)`.
    scales
        Factors of the weights.
    steps
        Steps of gradient descent at every scale.
    edge
        The step in units of $1/\lambda$, below 2.
    rates
        Learning-rate tensor; by default that of the network, and one for functions.
    """
    model = as_model(apply_or_net)
    x, x_test = as_points("x", task.x, model), as_points("x_test", task.x_test, model)
    check_arguments(model, params, x)
    check_whole("steps", steps)
    factors = np.asarray(scales, float)
    if factors.ndim != 1 or not len(factors) or not ((factors > 0) & np.isfinite(factors)).all():
        raise ValueError(f"scales must be positive numbers, got {factors.tolist()}.")
    check_positive("edge", edge)
    if edge >= 2:
        raise ValueError(
            f"edge={edge:g} is a step that even a frozen kernel cannot take; it must be below 2."
        )
    y, y_test = (
        as_targets(labels, len(points), x.dtype, name)
        for labels, points, name in ((task.y, x, "y"), (task.y_test, x_test, "y_test"))
    )
    tensor = rate_tree(model, params, x.shape[1:], rates, "gradient")
    x, x_test, y, y_test = (jnp.asarray(part) for part in (x, x_test, y, y_test))
    numbers = jnp.asarray(factors, x.dtype)
    widest = _largest(model, _times(params, numbers), x, y, tensor)
    eta = edge / jnp.maximum(widest, _largest(model, _times(params, jnp.ones(1, x.dtype)), x, y, tensor))
    plain = gradient_descent(params, 0.0, tensor)
    moving = _FromScale(model=model, params=params, optimizer=plain, x=x, y=y, x_test=x_test, y_test=y_test)
    # The mean over outputs, too, is part of the loss but not of the kernel.
    path = follow(moving, steps=steps, every=steps, copies=(numbers, eta * y.shape[1]))
    train_losses, test_losses, motion = (part[:, -1] for part in path.seen)
    if not np.isfinite(train_losses).all():
        scale = factors[~np.isfinite(train_losses)][0]
        raise DivergenceError(f"training from scale {scale:g} diverged: use an edge below {edge:g}.")
    return ScaleSweep(factors, train_losses, test_losses, motion)


class _FromScale(Descent):
    """Half the mean square error of what is added to the start; each copy has a scale and a step."""

    model: Model
    params: PyTree
    optimizer: Optimizer
    x: Array
    y: Array
    x_test: Array
    y_test: Array

    def start(self, own: tuple[Array, Array]) -> PyTree:
        return jax.tree.map(lambda leaf: own[0] * leaf, self.params)

    def stepping(self, own: tuple[Array, Array]) -> Optimizer:
        return self.optimizer._replace(eta=own[1])

    def loss(self, params: PyTree, own: tuple[Array, Array], drawn: None) -> Float[Array, ""]:
        return self.error(params, own, self.x, self.y)

    def error(self, params: PyTree, own: tuple[Array, Array], x: Array, y: Array) -> Float[Array, ""]:
        return jnp.mean((self.model(params, x) - self.model(self.start(own), x) - y) ** 2) / 2

    def look(self, state: Weights, own: tuple[Array, Array]) -> tuple[Array, Array, Array]:
        start = self.start(own)
        moved, size = (
            sum(jnp.sum(a**2) for a in jax.tree.leaves(tree))
            for tree in (jax.tree.map(jnp.subtract, state.params, start), start)
        )
        test = self.error(state.params, own, self.x_test, self.y_test)
        return self.loss(state.params, own, None), test, jnp.sqrt(moved / size)


def _times(params: PyTree, scales: Float[Array, " scales"]) -> PyTree:
    return jax.tree.map(lambda leaf: scales.reshape(-1, *(1,) * leaf.ndim) * leaf, params)


@eqx.filter_jit
def _largest(model: Model, starts: PyTree, x: Array, y: Array, rates: PyTree) -> Float[Array, " scales"]:
    """Largest eigenvalue of the mean of J J^T at each start, by powers of the smaller product."""

    def one(start: PyTree) -> Array:
        push = jax.linearize(lambda p: model(p, x), start)[1]
        pull = jax.linear_transpose(push, start)

        def power(v: Array, _):
            v = push(jax.tree.map(jnp.multiply, rates, pull(v)[0])) / len(x)
            size = jnp.linalg.norm(v)
            return v / size, size

        return lax.scan(power, jnp.ones_like(y) / jnp.sqrt(y.size), None, length=30)[1][-1]

    return jax.vmap(one)(starts)
