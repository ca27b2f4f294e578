"""Ensembles: the same network drawn and trained many times."""

import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from finitewidth._base.checks import check_key, check_whole
from finitewidth._base.whole_files import whole_file
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import check_network, layer_shapes, settings_of
from finitewidth.architecture.weights import Draw
from finitewidth.networks.checkpoints import Results, Settings, digest
from finitewidth.networks.losses import Loss
from finitewidth.networks.members import map_members
from finitewidth.networks.models import Inputs, as_points
from finitewidth.networks.training.observables import Observable, Record, as_observables
from finitewidth.networks.training.optimizers import Schedule
from finitewidth.networks.training.training import (
    DivergenceError,
    State,
    Task,
    as_task,
    check_lengths,
    observed_path,
    record_times,
    refuse_divergence,
)

_SHARED_RECORDS = 256
_SHARED_BYTES = 2**16


class Ensemble(NamedTuple):
    """Trained networks, first axis the member.

    `outputs` and `initial_outputs` are (size, test, out) at the test inputs, `losses` (size, records) the
    training losses at the steps in `times`, `recorded` the observables (size, records, ...), and
    `settings` everything that the numbers depend on.
    """

    outputs: Float[np.ndarray, "size test out"]
    initial_outputs: Float[np.ndarray, "size test out"]
    losses: Float[np.ndarray, "size records"]
    times: Int[np.ndarray, " records"]
    recorded: dict[str, np.ndarray]
    settings: Settings

    @property
    def mean(self) -> Float[np.ndarray, "test out"]:
        """Average output of the trained networks."""
        return self.outputs.mean(axis=0)

    @property
    def sem(self) -> Float[np.ndarray, "test out"]:
        """Standard error of the average output."""
        return self.outputs.std(axis=0, ddof=1) / np.sqrt(len(self.outputs))

    def save(self, path: str | os.PathLike) -> None:
        """Write everything into one NPZ file; the settings are JSON text under the name `settings`."""
        recorded = {f"recorded_{name}": values for name, values in self.recorded.items()}
        arrays = {name: getattr(self, name) for name in self._fields[:4]}
        text = np.array(json.dumps(self.settings))
        path = Path(path)
        with whole_file(path if path.suffix == ".npz" else path.with_name(f"{path.name}.npz")) as file:
            np.savez(file, allow_pickle=False, settings=text, **arrays, **recorded)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "Ensemble":
        """Read what `save` wrote."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                recorded, settings = _recorded(stored), json.loads(str(stored["settings"]))
                arrays = (stored[name] for name in cls._fields[:4])
                return cls(*arrays, recorded=recorded, settings=settings)
        except FileNotFoundError:
            raise FileNotFoundError(f"there is no file {path}.") from None
        except (KeyError, ValueError, EOFError, zipfile.BadZipFile) as error:
            raise ValueError(f"{path} is damaged, or holds no ensemble ({error}).") from None


def _recorded(arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The observables among named arrays, by their own names."""
    prefix = "recorded_"
    return {name.removeprefix(prefix): arrays[name] for name in arrays if name.startswith(prefix)}


class Trained(eqx.Module):
    """One member: drawn from its key, trained, and evaluated. Numbers of steps are data, not a program."""

    net: Layer
    task: Task
    observables: dict[str, Observable]
    x_test: Array
    lengths: Int[Array, " records"]
    weights: str | Draw = eqx.field(static=True)

    def start(self, key: PRNGKeyArray) -> tuple[State, PRNGKeyArray]:
        """Before the first step, and the key that draws the batches."""
        draw_key, batch_key = jax.random.split(key)
        params = self.net.init(draw_key, self.task.x.shape[1:], weights=self.weights, dtype=self.task.x.dtype)
        return State(params, self.task.optimizer.init(params), jnp.zeros((), int)), batch_key

    def __call__(self, key: PRNGKeyArray) -> dict[str, Array]:
        start, batch_key = self.start(key)
        first = {name: observe(start.params) for name, observe in self.observables.items()}
        end, seen = observed_path(self.task, self.observables, start, batch_key, self.lengths)
        recorded = jax.tree.map(lambda before, after: jnp.concatenate([before[None], after]), first, seen)
        return {
            "outputs": self.task.model(end.params, self.x_test),
            "initial_outputs": self.task.model(start.params, self.x_test),
            **{f"recorded_{name}": values for name, values in recorded.items()},
        }


def train_ensemble(
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
    memory_limit: int = 2**30,
    directory: str | os.PathLike | None = None,
    checkpoint_every: int | None = None,
    progress: bool = False,
    scheduler: str | None = None,
) -> Ensemble:
    """Draw and train `size` networks.

    Parameters
    ----------
    net
        The network to draw.
    key
        Member i depends on ``fold_in(key, i)`` only: an ensemble can be enlarged later, and neither the
        memory limit nor an interruption changes a single bit.
    size
        Number of networks.
    x, y, x_test
        Training set, and the inputs at which to keep the outputs (those of training by default). The
        networks compute in the precision of x.
    steps, learning_rate, optimizer, loss, batch_size, record, record_every
        As in `train`; `record` also knows "test_outputs". Another number of steps needs no new program.
    record_at
        The steps after which to record, such as `log_spaced(steps)`, instead of one in `record_every`; the
        start and the end are always recorded.
    weights
        Law of the weights, as in the `init` of the network.
    memory_limit
        Bytes that networks in training may take at a time.
    directory
        Where to keep finished members; a second call with the same settings continues there.
    checkpoint_every
        Members between two writes, rounded up to whole blocks.
    progress
        Whether to show a progress bar.
    scheduler
        Address of a Dask scheduler, such as "tcp://10.0.0.1:8786", whose workers train the networks; threads
        of this process by default.

    Returns
    -------
    Ensemble
        Outputs before and after training, losses and observables of every member.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> x = jax.random.normal(jax.random.key(1), (5, 3))
    >>> net = fw.MLP(hidden=(16,), activation="tanh")
    >>> nets = fw.train_ensemble(net, jax.random.key(0), 20, x, x[:, :1], steps=50, learning_rate=0.1)
    >>> nets.outputs.shape
    (20, 5, 1)
    """
    times, spacing = times_of_records(steps, record_every, record_at)
    member = as_member(
        net, key, x, y, x_test, learning_rate, optimizer, loss, batch_size, weights, record, times
    )
    about = describe(net, key, member.task, member.x_test, optimizer, learning_rate, weights)
    settings = {**about, "steps": steps, "record": sorted(member.observables), **spacing}
    if directory is not None:
        refuse_unnamed(optimizer=optimizer, learning_rate=learning_rate, loss=loss, weights=weights)

    def without_padding(results: Results) -> Results:
        records = _recorded(results)
        return results | {f"recorded_{name}": values[:, : len(times)] for name, values in records.items()}

    results = map_members(
        member,
        key,
        size,
        bytes_of_training(net, member.task, member.x_test),
        memory_limit=memory_limit,
        directory=directory,
        settings=settings,
        checkpoint_every=checkpoint_every,
        progress=progress,
        finish=without_padding,
        scheduler=scheduler,
    )
    recorded = _recorded(results)
    losses = recorded.pop("loss")
    refuse_diverged_member(member, key, losses)
    outputs, before = results["outputs"], results["initial_outputs"]
    return Ensemble(outputs, before, losses, times, recorded, {"size": size, **settings})


def log_spaced(steps: int, per_doubling: int = 1) -> Int[np.ndarray, " records"]:
    """Numbers of steps from 1 to `steps`, so many for every doubling: 1, 2, 4, ... and the last one."""
    check_whole("steps", steps)
    check_whole("per_doubling", per_doubling)
    exponents = np.arange(0, per_doubling * math.log2(steps) + 1e-9) / per_doubling
    return np.unique([*np.round(2**exponents).astype(int), steps])


def times_of_records(
    steps: int, record_every: int | None, record_at: Sequence[int] | Int[np.ndarray, " _"] | None
) -> tuple[Int[np.ndarray, " records"], Settings]:
    """The numbers of steps at which to record, start and end among them, and how to describe them."""
    if record_at is None:
        every = check_lengths(steps, record_every)
        return record_times(steps, every), {"record_every": every}
    check_whole("steps", steps)
    if record_every is not None:
        raise ValueError("record_every and record_at both say when to record: pass one of them.")
    for at in record_at:
        check_whole("every number in record_at", at, least=0)
        if at > steps:
            raise ValueError(f"record_at has {at}, which is after the last of {steps} steps.")
    times = np.unique([0, *map(int, record_at), steps])
    return times, {"record_at": times.tolist()}


def as_member(
    net: Layer,
    key: PRNGKeyArray,
    x: Inputs,
    y: Inputs,
    x_test: Inputs | None,
    learning_rate: float | Schedule | None,
    optimizer: str | optax.GradientTransformation,
    loss: str | Loss | Callable[[Array, Array], Array],
    batch_size: int | None,
    weights: str | Draw,
    record: Record,
    times: Int[np.ndarray, " records"],
) -> Trained:
    """What is drawn, trained and recorded, from the arguments of `train_ensemble`."""
    check_network(net)
    check_key(key)
    x = as_points("x", x)
    x_test = x if x_test is None else as_points("x_test", x_test)
    # Shapes and types are enough here, and cost no compilation.
    sample = eqx.filter_eval_shape(net.init, key, x.shape[1:], weights=weights, dtype=x.dtype)
    net.check(sample, x_test)
    task, _ = as_task(net, sample, x, y, learning_rate, optimizer, loss, batch_size, key, None)
    observables = as_observables(record, task.model, task.loss, None, task.x, task.y, x_test)
    observables |= as_observables(["loss"], task.model, task.loss, None, task.x, task.y)
    seen = jax.eval_shape(lambda params: {n: observe(params) for n, observe in observables.items()}, sample)
    bytes_each = sum(a.size * a.dtype.itemsize for a in jax.tree.leaves(seen))
    lengths = _padded(np.diff(times), bytes_each)
    return Trained(net, task, observables, x_test, jnp.asarray(lengths), weights)


def _padded(lengths: Int[np.ndarray, " records"], bytes_each: int) -> Int[np.ndarray, " padded"]:
    """Stretches of no steps at the end, so that few programs serve all numbers of records.

    A power of two; small records share one of `_SHARED_RECORDS`.
    """
    shared = _SHARED_RECORDS if _SHARED_RECORDS * bytes_each <= _SHARED_BYTES else 1
    most = max(shared, 1 << (len(lengths) - 1).bit_length())
    return np.concatenate([lengths, np.zeros(most - len(lengths), lengths.dtype)])


def describe(
    net: Layer,
    key: PRNGKeyArray,
    task: Task,
    x_test: Array,
    optimizer: str | optax.GradientTransformation,
    learning_rate: float | Schedule | None,
    weights: str | Draw,
) -> Settings:
    """Everything that the members of an ensemble depend on, in terms that JSON can hold."""
    return {
        **settings_of(net),
        "weights": _name(weights),
        "key": np.asarray(jax.random.key_data(key)).tolist(),
        "x": digest(task.x),
        "y": digest(task.y),
        "x_test": digest(x_test),
        "optimizer": _name(optimizer),
        "learning_rate": learning_rate if not callable(learning_rate) else _name(learning_rate),
        "loss": task.loss.name,
        "batch_size": task.batch_size,
    }


def _name(value: object) -> str:
    return value if isinstance(value, str) else getattr(value, "__qualname__", type(value).__name__)


def refuse_unnamed(**arguments: object) -> None:
    """A directory can tell two ensembles apart only if everything in them has a name or a value."""
    for argument, value in arguments.items():
        if not isinstance(value, str | float | int | None):
            raise ValueError(
                f"with a directory, {argument} must be a name or a number, not {_name(value)}: "
                "otherwise a later run could not tell whether it is the same ensemble."
            )


def bytes_of_training(net: Layer, task: Task, x_test: Array) -> int:
    """Working memory of one network in training: parameters with gradients and memory, activations."""
    entering = task.x.shape[1:]
    drawn = jax.eval_shape(lambda key: net.init(key, entering), jax.random.key(0))
    parameters = sum(leaf.size for leaf in jax.tree.leaves(drawn))
    batch = len(task.x) if task.batch_size is None else task.batch_size
    shapes = layer_shapes(net, entering)
    kept = sum(math.prod(leaving) for part, below, leaving in shapes if part.has_parameters(below))
    activations = kept * (2 * batch + len(x_test))
    return task.x.dtype.itemsize * (5 * parameters + activations)


def refuse_diverged_member(
    member: Trained, key: PRNGKeyArray, losses: Float[np.ndarray, "size records"], first: int = 0
) -> None:
    """Stop when a network has run away; `first` is the number of the first one."""
    rises = ~(losses.max(axis=1) <= losses[:, 0])
    for i in np.flatnonzero(rises):
        state, _ = member.start(jax.random.fold_in(key, first + int(i)))
        try:
            refuse_divergence(member.task, state.params, losses[i])
        except DivergenceError as error:
            raise DivergenceError(f"member {first + i} of the ensemble: {error}") from None
