"""Ensembles: the same network drawn and trained many times."""

import json
import math
import os
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PRNGKeyArray

from finitewidth.architecture import Layer, check_network
from finitewidth.architecture.networks import layer_shapes, settings_of
from finitewidth.architecture.weights import Draw
from finitewidth.checks import check_key
from finitewidth.networks.checkpoints import Settings, digest
from finitewidth.networks.losses import Loss
from finitewidth.networks.members import map_members
from finitewidth.networks.models import Inputs, as_points
from finitewidth.networks.observables import Observable, Record, as_observables
from finitewidth.networks.optimizers import Schedule
from finitewidth.networks.training import (
    DivergenceError,
    State,
    Task,
    as_task,
    check_lengths,
    record_times,
    refuse_divergence,
    trajectory,
)
from finitewidth.whole_files import whole_file


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
    """One member: drawn from its key, trained, and evaluated."""

    net: Layer
    task: Task
    observables: dict[str, Observable]
    x_test: Array
    steps: int = eqx.field(static=True)
    every: int = eqx.field(static=True)
    weights: str | Draw = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray) -> dict[str, Array]:
        draw_key, batch_key = jax.random.split(key)
        params = self.net.init(draw_key, self.task.x.shape[1:], weights=self.weights, dtype=self.task.x.dtype)
        state = State(params, self.task.optimizer.init(params), jnp.zeros((), int))
        seen = [{name: observe(params)[None] for name, observe in self.observables.items()}]
        records, rest = divmod(self.steps, self.every)
        for count, length in [(records, self.every), (1, rest)]:
            if count and length:
                state, _, piece = trajectory(self.task, self.observables, state, batch_key, count, length)
                seen.append(piece)
        recorded = jax.tree.map(lambda *parts: jnp.concatenate(parts), *seen)
        return {
            "outputs": self.task.model(state.params, self.x_test),
            "initial_outputs": self.task.model(params, self.x_test),
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
        As in `train`.
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
    check_network(net)
    check_key(key)
    x = as_points("x", x)
    x_test = x if x_test is None else as_points("x_test", x_test)
    # Shapes and types are enough here, and cost no compilation.
    sample = eqx.filter_eval_shape(net.init, key, x.shape[1:], weights=weights, dtype=x.dtype)
    net.check(sample, x_test)
    task, _ = as_task(net, sample, x, y, learning_rate, optimizer, loss, batch_size, key, None)
    every = check_lengths(steps, record_every)
    observables = as_observables(record, task.model, task.loss, None, task.x, task.y)
    observables |= as_observables(["loss"], task.model, task.loss, None, task.x, task.y)
    member = Trained(net, task, observables, x_test, steps, every, weights)
    about = describe(net, key, task, x_test, optimizer, learning_rate, weights)
    settings = {**about, "steps": steps, "record": sorted(observables), "record_every": every}
    if directory is not None:
        refuse_unnamed(optimizer=optimizer, learning_rate=learning_rate, loss=loss, weights=weights)
    results = map_members(
        member,
        key,
        size,
        bytes_of_training(net, task, x_test),
        memory_limit=memory_limit,
        directory=directory,
        settings=settings,
        checkpoint_every=checkpoint_every,
        progress=progress,
        scheduler=scheduler,
    )
    recorded, times = _recorded(results), record_times(steps, every)
    losses = recorded.pop("loss")
    _refuse_diverged_member(net, key, task, weights, losses)
    outputs, before = results["outputs"], results["initial_outputs"]
    return Ensemble(outputs, before, losses, times, recorded, {"size": size, **settings})


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


def _refuse_diverged_member(
    net: Layer, key: PRNGKeyArray, task: Task, weights: str | Draw, losses: Float[np.ndarray, "size records"]
) -> None:
    rises = ~(losses.max(axis=1) <= losses[:, 0])
    for i in np.flatnonzero(rises):
        draw_key, _ = jax.random.split(jax.random.fold_in(key, int(i)))
        params = net.init(draw_key, task.x.shape[1:], weights=weights, dtype=task.x.dtype)
        try:
            refuse_divergence(task, params, losses[i])
        except DivergenceError as error:
            raise DivergenceError(f"member {i} of the ensemble: {error}") from None
