r"""Weights multiplied by numbers that leave the function as it is, and the balance of ReLU neurons.

A ReLU neuron with weights s w into it and v/s out of it is the same function for every s > 0. It is not the
same point for an optimiser.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_whole
from finitewidth.architecture.layer import Layer
from finitewidth.networks.losses import Loss
from finitewidth.networks.models import Apply, Inputs, Model
from finitewidth.networks.training.training import State, Task, as_task


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
        `finitewidth.course.optimiser_geometry.theory.equivariant_rates` of the factors both stay the same function.
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
    gaps, losses = _side_by_side(tasks, (params, twin), steps)
    return RescaledTraining(np.asarray(gaps), np.asarray(losses))


@eqx.filter_jit
def _side_by_side(
    tasks: tuple[Task, Task], starts: tuple[PyTree, PyTree], steps: int
) -> tuple[Float[Array, " times"], Float[Array, "times 2"]]:
    def look(task: Task, params: PyTree) -> tuple[Array, Array]:
        outputs = task.model(params, task.x)
        return outputs, task.loss.value(outputs, task.y)

    def moved(task: Task, state: State) -> State:
        loss = lambda params: task.loss.value(task.model(params, task.x), task.y)
        gradient = jax.grad(loss)(state.params)
        return State(*task.optimizer.step(gradient, state.memory, state.params, state.t), state.t + 1)

    def step(states: tuple[State, State], _):
        (first, loss), (second, loss2) = (look(task, s.params) for task, s in zip(tasks, states, strict=True))
        seen = jnp.abs(second - first).max(), jnp.stack([loss, loss2])
        return (moved(tasks[0], states[0]), moved(tasks[1], states[1])), seen

    def begun(task: Task, params: PyTree) -> State:
        return State(params, task.optimizer.init(params), jnp.zeros((), int))

    states = begun(tasks[0], starts[0]), begun(tasks[1], starts[1])
    return lax.scan(step, states, None, length=steps + 1)[1]


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
