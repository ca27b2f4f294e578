"""Training of one network, in full batches or mini-batches, with anything recorded along the way."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from finitewidth._base.arrays import as_matrix
from finitewidth._base.checks import check_key, check_whole
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import refuse_random_passes
from finitewidth.networks.losses import Loss, as_labels, as_loss, refuse_several_losses
from finitewidth.networks.models import Apply, Inputs, Model, Network, as_model, as_points, check_arguments
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.networks.training.observables import Observable, Record, as_observables
from finitewidth.networks.training.optimizers import Optimizer, Schedule, as_optimizer

_STEPS_BETWEEN_CHECKS = 1000
# A loss this many times as large as at the start is divergence.
RUNAWAY = 1e6
_MOST_POINTS_FOR_LIMIT = 500


Order = Int[Array, " points"] | None


class DivergenceError(ValueError):
    """Training ran away."""


class Training(NamedTuple):
    """A finished training run.

    `losses` holds the loss before every step (of the mini-batch, scaled to the whole set). `recorded`
    maps each observable's name to its values at the steps in `times`, first axis the time.
    """

    params: PyTree
    losses: Float[Array, " steps"]
    times: Int[np.ndarray, " records"]
    recorded: dict[str, PyTree]


class Task(eqx.Module):
    """A network, its training set and how it learns."""

    model: Model
    loss: Loss = eqx.field(static=True)
    x: Array
    y: Array
    optimizer: Optimizer
    batch_size: int | None = eqx.field(static=True)


class State(NamedTuple):
    """Where training stands: after `t` steps."""

    params: PyTree
    memory: PyTree
    t: Int[Array, ""]


def train(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x: Inputs,
    y: Inputs,
    *,
    steps: int,
    learning_rate: float | Schedule | None = None,
    optimizer: str | optax.GradientTransformation = "sgd",
    loss: str | Loss | Callable[[Array, Array], Array] = "mse",
    batch_size: int | None = None,
    key: PRNGKeyArray | None = None,
    rates: PyTree | None = None,
    record: Record = (),
    record_every: int | None = None,
) -> Training:
    """Train one network.

    Parameters
    ----------
    apply_or_net
        A network, a Taylor model, or any function of (params, x).
    params
        Parameters to start from.
    x, y
        Training inputs (points, features) and labels: (points, out) numbers for "mse", signs for
        "logistic" and "exponential", (points,) classes for "cross_entropy".
    steps
        Number of optimiser steps.
    learning_rate
        The global step eta, or a function of the step number.
    optimizer
        "sgd", "momentum", "nesterov", "adam", "sign", "muon", or an Optax transformation, which brings its
        own learning rate.
    loss
        "mse", "cross_entropy", "logistic", "exponential", or a function of (outputs, labels). All are
        sums over the training set, so that gradient descent is stable below 2 / lambda_max(NTK).
    batch_size
        Points per step, drawn without replacement in every pass; the gradient is scaled up to the whole
        set. All points by default.
    key
        Needed for mini-batches only.
    rates
        Learning-rate tensor: one number, a tree, or the geometry ("gradient", "entrywise", "spectral") for
        which the network's parametrisation provides it; by default the optimiser's own.
    record, record_every
        Observables and the number of steps between two records (a hundredth of the run by default):
        names out of "loss", "outputs", "ntk", or a mapping from names to functions of params.

    Returns
    -------
    Training
        `params`, `losses`, `times` and `recorded`.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> net = fw.MLP(hidden=(32,), activation="tanh")
    >>> x = jax.random.normal(jax.random.key(1), (5, 3))
    >>> run = fw.train(net, net.init(jax.random.key(0), 3), x, x[:, :1], steps=200, learning_rate=0.1)
    >>> bool(run.losses[-1] < 0.1 * run.losses[0])
    True
    """
    task, key = as_task(apply_or_net, params, x, y, learning_rate, optimizer, loss, batch_size, key, rates)
    observables = as_observables(
        record, task.model, task.loss, None if isinstance(rates, str) else rates, task.x, task.y
    )
    every = check_lengths(steps, record_every)
    state = State(params, task.optimizer.init(params), jnp.zeros((), int))
    losses, seen = [], [_observe(observables, params)]
    for records, length in _chunks(steps, every):
        state, chunk_losses, chunk_seen = trajectory(task, observables, state, key, records, length)
        losses.append(chunk_losses)
        seen.append(chunk_seen)
        refuse_divergence(task, params, np.concatenate(losses))
    return Training(
        state.params,
        jnp.concatenate(losses),
        record_times(steps, every),
        jax.tree.map(lambda *parts: jnp.concatenate(parts), *seen),
    )


def as_task(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x: Inputs,
    y: Inputs,
    learning_rate: float | Schedule | None,
    optimizer: str | optax.GradientTransformation,
    loss: str | Loss | Callable[[Array, Array], Array],
    batch_size: int | None,
    key: PRNGKeyArray | None,
    rates: PyTree | None,
) -> tuple[Task, PRNGKeyArray]:
    """The training task that these arguments describe, and the key that draws its batches."""
    model, loss = as_model(apply_or_net), as_loss(loss)
    if isinstance(model, Network):
        refuse_random_passes(model.layer, "training draws no masks")
    x = as_points("x", x, model)
    check_arguments(model, params, x)
    outputs = jax.eval_shape(model, params, x)
    if isinstance(model, Network):
        leaving = model.layer.leaving(x.shape[1:])
        if len(leaving) > 1 and np.size(y) != outputs.size:
            raise ValueError(
                f"x has points of shape {x.shape[1:]}, and the network turns them into {leaving}, outputs at "
                "every position: put Flatten() or GlobalAveragePool() before its last Dense layer."
            )
    y = as_labels(loss, y, outputs.shape, outputs.dtype)
    if batch_size is not None:
        check_whole("batch_size", batch_size)
        if not 1 <= batch_size <= len(x):
            raise ValueError(
                f"batch_size must be between 1 and the {len(x)} training points, got {batch_size}."
            )
        if key is None:
            raise ValueError(f"batch_size={batch_size} draws batches at random: pass a key.")
    if key is not None:
        check_key(key)
    refuse_several_losses(loss, outputs, y)
    stepper = as_optimizer(optimizer, learning_rate, model, params, x.shape[1:], rates)
    return Task(model, loss, x, y, stepper, batch_size), jax.random.key(0) if key is None else key


def check_lengths(steps: int, record_every: int | None) -> int:
    """The number of steps between records."""
    check_whole("steps", steps)
    if record_every is None:
        return max(1, steps // 100)
    check_whole("record_every", record_every)
    return min(record_every, steps)


def record_times(steps: int, every: int) -> Int[np.ndarray, " records"]:
    """The steps at which observables are recorded: 0, every multiple of `every`, and the end."""
    return np.unique([*range(0, steps + 1, every), steps])


@eqx.filter_jit
def trajectory(
    task: Task, observables: dict[str, Observable], state: State, key: PRNGKeyArray, records: int, every: int
) -> tuple[State, Float[Array, " steps"], dict[str, PyTree]]:
    """`records` times `every` steps: state, loss before each step, observables after each `every` of them."""

    def stretch(carry: tuple[State, Order], _):
        carry, losses = lax.scan(lambda carry, _: _step(task, key, carry), carry, None, length=every)
        return carry, (losses, {name: observe(carry[0].params) for name, observe in observables.items()})

    start = state, _order(task, key, state.t)
    (state, _), (losses, seen) = lax.scan(stretch, start, None, length=records)
    return state, losses.reshape(-1), seen


def observed_path(
    task: Task,
    observables: dict[str, Observable],
    state: State,
    key: PRNGKeyArray,
    lengths: Int[Array, " records"],
) -> tuple[State, dict[str, PyTree]]:
    """Stretches of so many steps each, and the observables after each.

    The lengths are data: one program for every number of steps. A stretch of no steps has no record: zeros
    fill its place.
    """

    def observe(params: PyTree) -> dict[str, PyTree]:
        return {name: one(params) for name, one in observables.items()}

    blank = jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(observe, state.params))

    def stretch(carry: tuple[State, Order], length: Int[Array, ""]):
        carry = lax.fori_loop(0, length, lambda _, carry: _step(task, key, carry)[0], carry)
        return carry, lax.cond(length > 0, observe, lambda params: blank, carry[0].params)

    start = state, _order(task, key, state.t)
    (state, _), seen = lax.scan(stretch, start, lengths)
    return state, seen


def _step(
    task: Task, key: PRNGKeyArray, carry: tuple[State, Order]
) -> tuple[tuple[State, Order], Float[Array, ""]]:
    """One step, and the loss before it."""
    state, order = carry
    order = _order(task, key, state.t, order)
    x, y, scale = _batch(task, order, state.t)

    def batch_loss(params: PyTree) -> Array:
        return scale * task.loss.value(task.model(params, x), y)

    value, gradient = jax.value_and_grad(batch_loss)(state.params)
    params, memory = task.optimizer.step(gradient, state.memory, state.params, state.t)
    return (State(params, memory, state.t + 1), order), value


def _order(task: Task, key: PRNGKeyArray, t: Int[Array, ""], current: Order = None) -> Order:
    """The order of the points in the pass that step t belongs to, drawn again where a pass begins."""
    if task.batch_size is None:
        return None
    per_pass = len(task.x) // task.batch_size

    def drawn() -> Array:
        return jax.random.permutation(jax.random.fold_in(key, t // per_pass), len(task.x))

    return drawn() if current is None else lax.cond(t % per_pass == 0, drawn, lambda: current)


def _batch(task: Task, order: Order, t: Int[Array, ""]) -> tuple[Array, Array, float]:
    """The points of step t and the factor that makes their sum an estimate of the whole sum."""
    if task.batch_size is None or order is None:
        return task.x, task.y, 1.0
    per_pass = len(task.x) // task.batch_size
    chosen = lax.dynamic_slice_in_dim(order, (t % per_pass) * task.batch_size, task.batch_size)
    return task.x[chosen], task.y[chosen], len(task.x) / task.batch_size


def _chunks(steps: int, every: int) -> list[tuple[int, int]]:
    """Pieces (records, steps each) between which the losses are looked at."""
    records, rest = divmod(steps, every)
    most = max(1, _STEPS_BETWEEN_CHECKS // every)
    pieces = [(min(most, records - start), every) for start in range(0, records, most)]
    return [*pieces, (1, rest)] if rest else pieces


@eqx.filter_jit
def _observe(observables: dict[str, Observable], params: PyTree) -> dict[str, PyTree]:
    """Observables of one moment, with a time axis of length one."""
    return {name: jax.tree.map(lambda a: a[None], observe(params)) for name, observe in observables.items()}


def refuse_divergence(task: Task, params: PyTree, losses: Float[np.ndarray, " steps"]) -> None:
    """Stop a run whose loss is no longer finite, or a million times that of its start and of zero outputs."""
    losses = np.asarray(losses)
    outputs = jax.eval_shape(task.model, params, task.x)
    reference = max(losses[0], float(task.loss.value(jnp.zeros(outputs.shape, outputs.dtype), task.y)))
    limit = RUNAWAY * reference if reference > 0 else np.finfo(losses.dtype).max
    runaway = ~(losses <= limit)
    if not runaway.any():
        return
    step = int(np.argmax(runaway))
    eta = task.optimizer.eta
    rate = "" if callable(eta) or eta < 0 else f" with learning_rate={float(eta):.4g}"
    raise DivergenceError(
        f"training diverged{rate}: the loss went from {losses[0]:.4g} to {losses[step]:.4g} by step {step}; "
        f"use a smaller learning rate{_stability_limit(task, params)}."
    )


def _stability_limit(task: Task, params: PyTree) -> str:
    """For gradient descent on squared error, the limit that the kernel of the start sets."""
    if task.loss.name != "mse" or task.optimizer.name != "sgd" or len(task.x) > _MOST_POINTS_FOR_LIMIT:
        return ""
    kernel = np.asarray(empirical_ntk(task.model, params, task.x, rates=task.optimizer.rates))
    largest = np.linalg.eigvalsh(as_matrix(kernel))[-1]
    return f" (the kernel of the start is stable below 2/lambda_max = {2 / largest:.4g})"
