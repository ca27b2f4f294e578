"""Which learning rate is best, on points held out, and how the best rate changes with the width.

All rates of a network are trained in one program, with the rate as data.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import lax
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from finitewidth._base.checks import check_key, check_whole, check_widths
from finitewidth._base.estimate import Estimate, jackknife
from finitewidth.architecture.layer import Layer
from finitewidth.networks.losses import Loss
from finitewidth.networks.members import map_members
from finitewidth.networks.models import Apply, Inputs, as_points
from finitewidth.networks.training.optimizers import Optimizer
from finitewidth.networks.training.training import RUNAWAY, State, Task, as_task, trajectory


class LearningRateSweep(NamedTuple):
    """Losses of several networks over learning rates."""

    rates: Float[np.ndarray, " rates"]
    """Learning rates, ascending."""
    losses: Float[np.ndarray, "networks rates"]
    """Half the mean square error on the points held out; a network that diverged counts as zero outputs."""

    @property
    def curve(self) -> Float[np.ndarray, " rates"]:
        """Geometric mean over the networks."""
        return 2.0 ** np.log2(self.losses).mean(axis=0)

    @property
    def best(self) -> float:
        """The best rate, between the grid's: the minimum of a parabola in logarithms."""
        return best_rate(self.rates, self.curve)


def best_rate(rates: Float[np.ndarray, " rates"], losses: Float[np.ndarray, " rates"]) -> float:
    """The minimum of the parabola through the lowest loss and its neighbours, in logarithms."""
    rates, losses = np.log2(np.asarray(rates, float)), np.log2(np.asarray(losses, float))
    if len(rates) < 3:
        raise ValueError(f"a best rate needs at least 3 rates, got {len(rates)}.")
    k = int(np.clip(np.argmin(losses), 1, len(rates) - 2))
    left, middle, right = losses[k - 1 : k + 2]
    spacing = (rates[k + 1] - rates[k - 1]) / 2
    return float(2.0 ** (rates[k] + spacing * 0.5 * (left - right) / (left - 2 * middle + right)))


def learning_rate_sweep(
    net: Layer,
    key: PRNGKeyArray,
    size: int,
    x: Inputs,
    y: Inputs,
    x_test: Inputs,
    y_test: Inputs,
    rates: Sequence[float] | Float[np.ndarray, " rates"],
    *,
    steps: int,
    optimizer: str = "adam",
    batch_size: int | None = None,
) -> LearningRateSweep:
    """Train networks at every learning rate and judge them on points held out.

    Parameters
    ----------
    net
        The network; its parametrisation decides how rates scale with width.
    key, size
        Draws so many networks; each has the same start at every rate.
    x, y, x_test, y_test
        Training points, and points held out, with labels.
    rates
        Learning rates, ascending; powers of two for `best`.
    steps, optimizer, batch_size
        As for `train`.
    """
    grid, x_test = _grid(rates), as_points("x_test", x_test)
    labels = np.asarray(y_test, float).reshape(len(x_test), -1)
    found = _train(net, key, size, x, y, x_test, grid, steps, optimizer, "mse", batch_size)
    losses = np.mean((found["outputs"].astype(float) - labels) ** 2, axis=(2, 3)) / 2
    return LearningRateSweep(grid, np.where(found["diverged"], np.mean(labels**2) / 2, losses))


class LearningRateTransfer(NamedTuple):
    """Training losses over learning rates at several widths."""

    widths: tuple[int, ...]
    """The widths, rising."""
    rates: Float[np.ndarray, " rates"]
    """Learning rates, ascending."""
    losses: Float[np.ndarray, "networks widths rates"]
    """The mean loss over all training points after the last step. A network that diverged, or whose loss is
    larger than the loss of zero outputs, counts as zero outputs."""

    @property
    def curves(self) -> Float[np.ndarray, "widths rates"]:
        """Geometric means over the networks."""
        return 2.0 ** np.log2(self.losses).mean(axis=0)

    @property
    def best(self) -> Estimate:
        """The best rate of every width, (widths,), by `best_rate` of the curves."""
        return jackknife(np.log2(self.losses), self._best)

    @property
    def exponent(self) -> Estimate:
        """The power of the width that the best rate goes with, with its standard error over the networks."""
        x = np.log2(self.widths)
        return jackknife(np.log2(self.losses), lambda logs: np.polyfit(x, np.log2(self._best(logs)), 1)[0])

    @property
    def on_the_edge(self) -> tuple[int, ...]:
        """Widths whose lowest loss is at an end of the grid, so that their best rate is not known."""
        lowest = np.argmin(self.curves, axis=1)
        return tuple(n for n, k in zip(self.widths, lowest, strict=True) if k in (0, len(self.rates) - 1))

    def _best(self, logs: Float[np.ndarray, "widths rates"]) -> Float[np.ndarray, " widths"]:
        return np.array([best_rate(self.rates, 2.0**curve) for curve in logs])


class OwnNetwork(NamedTuple):
    """A network written in JAX at one width, for `learning_rate_transfer`."""

    init: Callable[[PRNGKeyArray], PyTree]
    """Draws the parameters."""
    apply: Apply
    """Outputs (points, out) from parameters and inputs."""
    optimizer: Callable[[Any], optax.GradientTransformation]
    """The Optax transformation of a learning rate; factors that depend on the width belong in here."""


def learning_rate_transfer(
    build: Callable[[int], Layer | OwnNetwork],
    widths: Sequence[int],
    key: PRNGKeyArray,
    size: int,
    x: Inputs,
    y: Inputs,
    rates: Sequence[float] | Float[np.ndarray, " rates"],
    *,
    steps: int,
    optimizer: str = "adam",
    loss: str | Loss | Callable[[Array, Array], Array] = "mse",
    batch_size: int | None = None,
) -> LearningRateTransfer:
    """Train networks of several widths over a grid of learning rates: does the best rate carry over?

    Parameters
    ----------
    build
        A function of the width that returns a network of finitewidth's layers, whose parametrisation decides
        how rates scale with width, or an `OwnNetwork`.
    widths
        At least two, rising.
    key, size
        Draws so many networks of each width, at least two; each has the same start at every rate.
    x, y
        Training points with labels. With `batch_size` times `steps` points no point is seen twice, and the
        loss after the last step has a sharp minimum over the rates.
    rates
        Learning rates, ascending, equally spaced in logarithms: at least three.
    steps, loss, batch_size
        As for `train`.
    optimizer
        "sgd", "momentum", "nesterov", "adam", "sign" or "muon", for networks of layers; an `OwnNetwork`
        brings its own.

    Examples
    --------
    >>> import jax, numpy as np, finitewidth as fw
    >>> build = lambda width: fw.MLP((width,), "tanh", parametrisation="mup:8")
    >>> x = jax.random.normal(jax.random.key(0), (32, 3))
    >>> found = fw.networks.learning_rate_transfer(
    ...     build, [8, 16], jax.random.key(1), 2, x, x[:, :1], 2.0 ** np.arange(-8, 0), steps=8
    ... )
    >>> found.curves.shape, found.exponent.value.shape
    ((2, 8), ())
    """
    widths, grid = check_widths(widths), _grid(rates)
    check_whole("size", size, least=2)
    if len(grid) < 3:
        raise ValueError(f"rates must be at least 3, got {len(grid)}.")
    if not np.allclose(np.diff(np.log(grid)), np.diff(np.log(grid))[0]):
        raise ValueError(f"rates must be equally spaced in logarithms, got {grid.tolist()}.")
    losses = []
    for width in widths:
        own = jax.random.fold_in(key, width)
        found = _train(build(width), own, size, x, y, None, grid, steps, optimizer, loss, batch_size)
        zero = found["zero_loss"]
        losses.append(np.where(found["diverged"] | ~(found["loss"] < zero), zero, found["loss"]))
    return LearningRateTransfer(widths, grid, np.stack(losses, axis=1))


class _AtEveryRate(eqx.Module):
    """One network: drawn from its key, trained at every rate from the same start on the same batches."""

    init: Callable
    task: Task
    optimizer: Callable[[Array], Optimizer]
    rates: Array
    x_test: Array | None
    steps: int = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray) -> dict[str, Array]:
        draw_key, batch_key = jax.random.split(key)
        start, task = self.init(draw_key), self.task
        before = task.loss.value(task.model(start, task.x), task.y)

        def trained(rate: Array) -> dict[str, Array]:
            own = Task(task.model, task.loss, task.x, task.y, self.optimizer(rate), task.batch_size)
            state = State(start, own.optimizer.init(start), jnp.zeros((), int))
            state, _, _ = trajectory(own, {}, state, batch_key, 1, self.steps)
            after = task.loss.value(task.model(state.params, task.x), task.y)
            seen = {} if self.x_test is None else {"outputs": task.model(state.params, self.x_test)}
            return {"loss": after, **seen}

        found = lax.map(trained, self.rates)
        outputs = jax.eval_shape(task.model, start, task.x)
        zero = task.loss.value(jnp.zeros(outputs.shape, outputs.dtype), task.y)
        limit = RUNAWAY * jnp.maximum(before, zero)
        points = len(task.x)
        return {
            **found,
            "loss": found["loss"] / points,
            "zero_loss": jnp.broadcast_to(zero / points, self.rates.shape),
            "diverged": ~(found["loss"] <= limit),
        }


def _train(
    built: Any,
    key: PRNGKeyArray,
    size: int,
    x: Inputs,
    y: Inputs,
    x_test: Array | None,
    rates: np.ndarray,
    steps: int,
    optimizer: str,
    loss: str | Loss | Callable[[Array, Array], Array],
    batch_size: int | None,
) -> dict[str, np.ndarray]:
    """Losses on all points (networks, rates) and more; outputs (networks, rates, test, out)."""
    check_key(key)
    check_whole("steps", steps)
    x = as_points("x", x)
    if isinstance(built, Layer):
        init, model = _Drawn(built, x.shape[1:], x.dtype), built
        sample = eqx.filter_eval_shape(init, key)
        task, _ = as_task(model, sample, x, y, 1.0, optimizer, loss, batch_size, key, None)
        at = _Stepped(task.optimizer)
    elif isinstance(built, OwnNetwork):
        init, model = built.init, built.apply
        sample = eqx.filter_eval_shape(init, key)
        task, _ = as_task(model, sample, x, y, None, built.optimizer(1.0), loss, batch_size, key, None)
        at = _Optax(built.optimizer, task.optimizer)
    else:
        raise TypeError(f"build must return a network or an OwnNetwork, got {type(built).__name__}.")
    # Networks in training side by side would compete for the cores that large products use already.
    parameters = sum(leaf.size for leaf in jax.tree.leaves(sample))
    member = _AtEveryRate(init, task, at, jnp.asarray(rates), x_test, steps)
    return map_members(member, key, size, 5 * x.dtype.itemsize * parameters, memory_limit=2**34)


class _Drawn(eqx.Module):
    """Parameters of a network of layers from a key."""

    net: Layer
    entering: tuple[int, ...] = eqx.field(static=True)
    dtype: Any = eqx.field(static=True)

    def __call__(self, key: PRNGKeyArray) -> PyTree:
        return self.net.init(key, self.entering, dtype=self.dtype)


class _Stepped(eqx.Module):
    """The optimiser at another rate."""

    optimizer: Optimizer

    def __call__(self, rate: Array) -> Optimizer:
        return self.optimizer._replace(eta=rate)


class _Optax(eqx.Module):
    """An optimiser whose transformation brings its own rate."""

    build: Callable = eqx.field(static=True)
    optimizer: Optimizer

    def __call__(self, rate: Array) -> Optimizer:
        return self.optimizer._replace(directions=self.build(rate))


def _grid(rates: Sequence[float] | Float[np.ndarray, " rates"]) -> Float[np.ndarray, " rates"]:
    grid = np.asarray(rates, float)
    if grid.ndim != 1 or not len(grid) or not (grid > 0).all() or not (np.diff(grid) > 0).all():
        raise ValueError(f"rates must be positive and ascending, got {grid.tolist()}.")
    return grid
