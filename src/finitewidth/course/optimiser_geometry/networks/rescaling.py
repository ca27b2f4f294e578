r"""Weights multiplied by numbers that leave the function as it is, and the balance of ReLU neurons.

A ReLU neuron with weights s w into it and v/s out of it is the same function for every s > 0. It is not the
same point for an optimiser.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_whole
from finitewidth._base.follow import Moving, follow
from finitewidth.architecture.layer import Layer
from finitewidth.networks.losses import Loss
from finitewidth.networks.models import Apply, Inputs, Model
from finitewidth.networks.training.descent import Weights
from finitewidth.networks.training.training import Task, as_task


class RescaledTraining(NamedTuple):
    """Two networks that start as the same function: one as it was, and one with rescaled weights."""

    gaps: Float[np.ndarray, " times"]
    """Largest difference of their outputs on the training points, before the first and after every step."""
    losses: Float[np.ndarray, "times 2"]
    """Training losses of both."""

    @property
    def gap(self) -> float:
        """The largest difference at any time; infinite when a network diverged."""
        return float(np.max(self.gaps)) if np.isfinite(self.gaps).all() else np.inf


def rescale(params: PyTree, factors: PyTree) -> PyTree:
    """Parameters times factors: one number for all, a number or an array per leaf, or per branch of the tree.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> from finitewidth.course.optimiser_geometry.networks import rescale
    >>> net = fw.MLP((8,), "relu", C_b=0.0, C_W=2.0)
    >>> params, x = net.init(jax.random.key(0), 3), jax.numpy.ones((1, 3))
    >>> same = rescale(params, (5.0, 0.2))      # all of layer 1, all of layer 2; the biases are zero
    >>> bool(jax.numpy.allclose(net.apply(same, x), net.apply(params, x)))
    True
    """
    try:
        full = jax.tree.broadcast(factors, params)
    except ValueError:
        raise ValueError(
            f"factors is a tree {jax.tree.structure(factors)} that does not fit params, "
            f"{jax.tree.structure(params)}: give one number, or one per leaf."
        ) from None
    if not all(bool(jnp.all(jnp.asarray(factor) > 0)) for factor in jax.tree.leaves(factors)):
        raise ValueError("factors must all be positive: ReLU is not the same for negative multiples.")
    return jax.tree.map(lambda leaf, factor: leaf * jnp.asarray(factor, leaf.dtype), params, full)


def train_rescaled(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    factors: PyTree,
    x: Inputs,
    y: Inputs,
    *,
    steps: int,
    learning_rate: float | None = None,
    optimizer: str | optax.GradientTransformation = "sgd",
    loss: str | Loss = "mse",
    rates: PyTree | None = None,
    rate_factors: PyTree = 1.0,
) -> RescaledTraining:
    r"""Train a network and its rescaled twin side by side, in full batches.

    Parameters
    ----------
    apply_or_net, params
        A network or a function of (params, x), and where training starts.
    factors
        What the twin's parameters are multiplied by; see `rescale`. The function must not change.
    x, y
        Training points and labels.
    steps
        Steps of training.
    learning_rate, optimizer, loss
        As for `train`.
    rates
        The learning-rate tensor of the first network; by default the network's own, and one for functions.
    rate_factors
        What the twin's rates are multiplied by: one number, or a tree as for `factors`. With
        `equivariant_rates` of the factors (in this topic's `theory`) both stay the same function.
    """
    check_whole("steps", steps)
    twin = rescale(params, factors)
    task, _ = as_task(apply_or_net, params, x, y, learning_rate, optimizer, loss, None, None, rates)
    slower = task.optimizer._replace(rates=rescale(task.optimizer.rates, rate_factors))
    tasks = task, Task(task.model, task.loss, task.x, task.y, slower, None)
    before, after = (np.asarray(task.model(p, task.x)) for task, p in zip(tasks, (params, twin), strict=True))
    change, size = np.abs(after - before).max(), max(np.abs(before).max(), np.finfo(before.dtype).tiny)
    if change > 1e4 * np.finfo(before.dtype).eps * size:
        raise ValueError(
            f"factors change the outputs by {change / size:.2g} of their size: the model is not homogeneous "
            "in the rescaled weights, as ReLU networks are when biases are rescaled along."
        )
    gaps, losses = follow(_SideBySide(tasks, (params, twin)), steps=steps).seen
    return RescaledTraining(gaps, losses)


class _SideBySide(Moving):
    """Two networks in training, and how far apart their outputs are."""

    tasks: tuple[Task, Task]
    starts: tuple[PyTree, PyTree]

    def begin(self, own: None) -> tuple[Weights, Weights]:
        first, second = (
            Weights(params, task.optimizer.init(params))
            for task, params in zip(self.tasks, self.starts, strict=True)
        )
        return first, second

    def step(self, state: tuple[Weights, Weights], t: Array, own: None) -> tuple[Weights, Weights]:
        def moved(task: Task, at: Weights) -> Weights:
            loss = lambda params: task.loss.value(task.model(params, task.x), task.y)
            return Weights(*task.optimizer.step(jax.grad(loss)(at.params), at.memory, at.params, t))

        return moved(self.tasks[0], state[0]), moved(self.tasks[1], state[1])

    def look(self, state: tuple[Weights, Weights], own: None) -> tuple[Array, Array]:
        outputs = [task.model(at.params, task.x) for task, at in zip(self.tasks, state, strict=True)]
        losses = [task.loss.value(z, task.y) for task, z in zip(self.tasks, outputs, strict=True)]
        return jnp.abs(outputs[1] - outputs[0]).max(), jnp.stack(losses)


def balance(
    weights_in: Float[AnyArray, "rows into"],
    weights_out: Float[AnyArray, "out columns"],
    bias: Float[AnyArray, " rows"] | None = None,
) -> Float[Array, " rows"]:
    r"""$|w_j|^2+b_j^2-|v_j|^2$ of every ReLU neuron: gradient flow with equal rates conserves it.

    Parameters
    ----------
    weights_in
        Weights into the neurons, one row per neuron: `params[l].weight` of an `MLP`.
    weights_out
        Weights out of them, one column per neuron: `params[l + 1].weight`.
    bias
        Biases of the neurons.
    """
    into, out = jnp.asarray(weights_in), jnp.asarray(weights_out)
    if into.ndim != 2 or out.ndim != 2 or len(into) != out.shape[1]:
        raise ValueError(
            f"weights_in has shape {into.shape} and weights_out {out.shape}: the rows of the first and the "
            "columns of the second must be the same neurons."
        )
    own = 0.0 if bias is None else jnp.square(jnp.asarray(bias))
    return jnp.sum(into**2, axis=1) + own - jnp.sum(out**2, axis=0)
