"""Ensembles piece by piece: a few networks at a time, a stretch of steps at a time."""

import time
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from finitewidth._base.checks import check_positive, check_whole
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.weights import Draw
from finitewidth.networks.losses import Loss
from finitewidth.networks.models import Inputs
from finitewidth.networks.training.ensembles import (
    Trained,
    as_member,
    refuse_diverged_member,
    times_of_records,
)
from finitewidth.networks.training.observables import Record
from finitewidth.networks.training.optimizers import Schedule
from finitewidth.networks.training.training import State, observed_path

_FIRST_STRETCH = 64
_FASTEST_CHANGE = 4.0


class Piece(NamedTuple):
    """Networks in training, after `step` steps; first axis of every array the network.

    Attributes
    ----------
    members
        Numbers of these networks in the ensemble.
    step
        How many steps they have made.
    finished
        Whether these are all of their steps.
    outputs
        At the test inputs, now.
    times
        Numbers of steps at which something has been recorded so far, beginning with 0.
    losses, recorded
        Training losses and observables at these times.
    """

    members: range
    step: int
    finished: bool
    outputs: Float[np.ndarray, "networks test out"]
    times: Int[np.ndarray, " records"]
    losses: Float[np.ndarray, "networks records"]
    recorded: dict[str, np.ndarray]


def train_in_pieces(
    net: Layer,
    key: PRNGKeyArray,
    size: int,
    x: Inputs,
    y: Inputs,
    x_test: Inputs | None = None,
    *,
    steps: int,
    learning_rate: float | Schedule | None = None,
    optimizer: str | optax.GradientTransformation = "sgd",
    loss: str | Loss | Callable[[Array, Array], Array] = "mse",
    batch_size: int | None = None,
    weights: str | Draw = "gaussian",
    record: Record = (),
    record_every: int | None = None,
    record_at: Sequence[int] | Int[np.ndarray, " _"] | None = None,
    together: int = 8,
    seconds: float | int = 0.25,
) -> Iterator[Piece]:
    """The networks of `train_ensemble`, while they train: whoever has seen enough leaves the loop.

    Networks are trained `together` at a time. A piece comes about every so many `seconds`, in the middle of
    training where it takes longer, and at the end of training. Neither changes the networks, nor the steps at
    which they are recorded. Numbers of steps are data: one program serves them all.

    Parameters
    ----------
    net, key, size, x, y, x_test, steps, learning_rate, optimizer, loss, batch_size, weights, record
        As in `train_ensemble`: network i depends on ``fold_in(key, i)`` only.
    record_every, record_at
        As in `train_ensemble`.
    together
        Networks in one piece; the last has fewer where `size` is no multiple.
    seconds
        Time between two pieces, roughly.

    Yields
    ------
    Piece
        What these networks have become so far.

    Examples
    --------
    >>> import jax, numpy as np, finitewidth as fw
    >>> x = jax.random.normal(jax.random.key(1), (5, 3))
    >>> net = fw.MLP(hidden=(16,), activation="tanh")
    >>> for piece in fw.train_in_pieces(net, jax.random.key(0), 16, x, x[:, :1], steps=50, learning_rate=0.1):
    ...     if piece.finished and np.std(piece.outputs, axis=0).max() > 0.01:
    ...         break
    >>> piece.members, piece.outputs.shape
    (range(0, 8), (8, 5, 1))
    """
    check_whole("size", size)
    check_whole("together", together)
    check_positive("seconds", seconds)
    times, _ = times_of_records(steps, record_every, record_at)
    # Where to record is decided here and not in the program: any times will do.
    member = as_member(
        net, key, x, y, x_test, learning_rate, optimizer, loss, batch_size, weights, record, np.arange(2)
    )
    return _groups(member, key, size, times, together, float(seconds))


class _Group(NamedTuple):
    """Networks in training, and the keys that draw their batches."""

    states: State
    keys: PRNGKeyArray


def _groups(
    member: Trained,
    key: PRNGKeyArray,
    size: int,
    times: Int[np.ndarray, " records"],
    together: int,
    seconds: float,
) -> Iterator[Piece]:
    stretch = float(_FIRST_STRETCH)
    for first in range(0, size, together):
        members = range(first, min(first + together, size))
        group, seen = _start(member, key, jnp.asarray(first), len(members))
        records, step, since = [_on_host(seen)], 0, time.perf_counter()
        while step < times[-1]:
            length = min(int(times[len(records)]) - step, max(1, int(stretch)))
            began = time.perf_counter()
            group, seen, outputs = _advance(member, group, jnp.asarray([length]))
            seen, outputs = _on_host((seen, outputs))
            step += length
            # Between records half of the time is aimed at, so that a piece seldom takes longer.
            took = max(time.perf_counter() - began, 1e-9)
            faster = seconds / 2 * length / (took * stretch)
            stretch *= min(max(faster, 1 / _FASTEST_CHANGE), _FASTEST_CHANGE)
            if step == times[len(records)]:
                records.append(seen)
            finished = step == int(times[-1])
            if finished or time.perf_counter() - since >= seconds:
                yield _piece(member, key, members, step, finished, outputs, times, records)
                since = time.perf_counter()


def _piece(
    member: Trained,
    key: PRNGKeyArray,
    members: range,
    step: int,
    finished: bool,
    outputs: np.ndarray,
    times: Int[np.ndarray, " records"],
    records: list[dict[str, np.ndarray]],
) -> Piece:
    recorded = jax.tree.map(lambda *parts: np.stack(parts, axis=1), *records)
    losses = recorded.pop("loss")
    refuse_diverged_member(member, key, losses, members.start)
    return Piece(members, step, finished, outputs, times[: len(records)], losses, recorded)


@eqx.filter_jit
def _start(
    member: Trained, key: PRNGKeyArray, first: Int[Array, ""], count: int
) -> tuple[_Group, dict[str, PyTree]]:
    numbers = first + jnp.arange(count)
    states, keys = jax.vmap(lambda i: member.start(jax.random.fold_in(key, i)))(numbers)
    seen = {name: jax.vmap(observe)(states.params) for name, observe in member.observables.items()}
    return _Group(states, keys), seen


@eqx.filter_jit
def _advance(
    member: Trained, group: _Group, length: Int[Array, " 1"]
) -> tuple[_Group, dict[str, PyTree], Array]:
    def one(state: State, key: PRNGKeyArray) -> tuple[State, dict[str, PyTree], Array]:
        state, seen = observed_path(member.task, member.observables, state, key, length)
        now = {name: jax.tree.map(lambda a: a[0], values) for name, values in seen.items()}
        return state, now, member.task.model(state.params, member.x_test)

    states, seen, outputs = jax.vmap(one)(group.states, group.keys)
    return _Group(states, group.keys), seen, outputs


def _on_host(tree: PyTree) -> PyTree:
    return jax.tree.map(np.asarray, tree)
