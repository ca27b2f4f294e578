r"""How large a step an optimiser takes before it oscillates, and how sharpness comes to meet that limit.

On a quadratic loss an optimiser is stable while eta times the curvature is below a limit of its own;
the table of `algorithms.optimizers` has the limits.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from finitewidth._base.checks import check_positive, check_whole, is_number
from finitewidth._base.follow import Moving, follow
from finitewidth._base.foreign import is_torch
from finitewidth._base.linalg.traced_lanczos import leading_pair
from finitewidth.algorithms.optimizers import EPSILON, LIMITED, OPTIMIZERS, SECOND_DECAY

# Products with the Hessian in one round of Lanczos' method, rounds at most, and the error that ends them,
# relative to the eigenvalue. A round begins where the one before it, or the last record, has ended.
_PRODUCTS = 10
_ROUNDS = 30
_TOLERANCE = 1e-4
# The last part of a run, over which a plateau is averaged.
_LATE = 0.25


def stability_limit(optimizer: str = "sgd", momentum: float | int = 0.9) -> float:
    r"""The largest $\eta\lambda$ at which an optimiser is stable on a quadratic loss of curvature $\lambda$.

    Parameters
    ----------
    optimizer
        "sgd", "momentum" (heavy ball), "nesterov", or "adam", whose curvature is preconditioned.
    momentum
        b, between 0 and 1; "sgd" has none.

    Examples
    --------
    >>> from finitewidth.measure import stability_limit
    >>> [round(stability_limit(name), 3) for name in ("sgd", "momentum", "nesterov", "adam")]
    [2.0, 3.8, 1.357, 38.0]
    """
    return _limit(optimizer, momentum)(float(momentum))


class EdgeOfStability(eqx.Module):
    r"""Sharpness along training, against the limit of the optimiser.

    `ratio` is $\eta\lambda_{max}$ in units of the limit: training that sharpens its loss rises to 1 and stays
    there.
    """

    times: Int[np.ndarray, " records"]
    """Steps taken before each record."""
    losses: Float[np.ndarray, " records"]
    """The loss there."""
    sharpness: Float[np.ndarray, " records"]
    r"""$\lambda_{max}$ of the Hessian, preconditioned by the rates and by Adam's own P."""
    error: Float[np.ndarray, " records"]
    """An exact eigenvalue is at most so far from each."""
    learning_rate: float
    r"""$\eta$."""
    limit: float
    r"""The limit of $\eta\lambda_{max}$."""
    params: PyTree
    """Parameters at the end; a state dict for PyTorch."""

    @property
    def ratio(self) -> Float[np.ndarray, " records"]:
        r"""$\eta\lambda_{max}$ in units of the limit."""
        return self.learning_rate * self.sharpness / self.limit

    @property
    def start(self) -> float:
        """The ratio before training."""
        return float(self.ratio[0])

    @property
    def late(self) -> float:
        """The mean ratio over the last quarter of the run."""
        return float(self.ratio[self.times >= (1 - _LATE) * self.times[-1]].mean())

    @property
    def sharpening(self) -> float:
        """By how much the sharpness grew, at its largest."""
        return float(np.nanmax(self.sharpness) / self.sharpness[0])

    @property
    def diverged(self) -> bool:
        """Whether the loss ran away; sharpness is NaN from there on."""
        return not np.isfinite(self.losses).all()

    def arrival(self, within: float = 0.05) -> int | None:
        """The first recorded step at which the ratio has come so close to 1; None if it never does."""
        there = np.flatnonzero(self.ratio >= 1 - within)
        return int(self.times[there[0]]) if len(there) else None

    def at_edge(self, within: float = 0.05) -> bool:
        """Whether the run ends on a plateau at the limit."""
        return abs(self.late - 1) <= within


def edge_of_stability(
    loss: Callable[[Any], Any],
    params: Any,
    *,
    learning_rate: float | int,
    steps: int,
    optimizer: str = "sgd",
    momentum: float | int = 0.9,
    rates: PyTree | None = None,
    record_every: int | None = None,
) -> EdgeOfStability:
    """Train in full batches, and follow the sharpness.

    Parameters
    ----------
    loss
        A function of the parameters, such as `lambda p: jnp.mean((net.apply(p, x) - y) ** 2) / 2`; of the
        module for PyTorch, such as `lambda net: ((net(x) - y) ** 2).mean() / 2`.
    params
        Parameters to start from, or a PyTorch module, which is left as it was.
    learning_rate
        The step eta.
    steps
        Number of steps.
    optimizer, momentum
        As in `stability_limit`; Adam averages squared gradients with decay 0.999.
    rates
        Learning-rate tensor: one number or a tree of them, by which steps are multiplied; none by default.
        For PyTorch one number, or a dictionary with one for each parameter.
    record_every
        Steps between two records; a hundredth of the run by default.

    Returns
    -------
    EdgeOfStability
        Times, losses, sharpness and its error. `ratio`, `start`, `arrival()`, `late` and `at_edge()` sum up.

    Examples
    --------
    >>> import jax.numpy as jnp
    >>> from finitewidth.measure import edge_of_stability
    >>> start = {"a": jnp.array(3.0), "b": jnp.array(0.1)}
    >>> loss = lambda p: (p["a"] * p["b"] - 1) ** 2 / 2
    >>> run = edge_of_stability(loss, start, learning_rate=0.1, steps=200)
    >>> round(run.start, 2), round(run.late, 2), run.arrival()
    (0.45, 0.46, None)
    """
    check_positive("learning_rate", learning_rate)
    check_whole("steps", steps)
    every = max(1, steps // 100) if record_every is None else record_every
    check_whole("record_every", every)
    limit = stability_limit(optimizer, momentum)
    if is_torch(params):
        from finitewidth.measure.loss.torch_stability import train

        end, records = train(
            loss, params, learning_rate=float(learning_rate), records=steps // every, every=every,
            optimizer=optimizer, momentum=float(momentum), rates=1.0 if rates is None else rates,
        )  # fmt: skip
        return _result(np.array(records).T, every, learning_rate, limit, end)
    value = jax.eval_shape(loss, params)
    if getattr(value, "shape", None) != ():
        raise ValueError(f"loss must return one number, got shape {getattr(value, 'shape', None)}.")
    start, unravel = ravel_pytree(params)
    tensor = jax.tree.map(
        lambda p, rate: jnp.broadcast_to(rate, p.shape),
        params,
        jax.tree.broadcast(1.0 if rates is None else rates, params),
    )
    eta = jnp.asarray(float(learning_rate), start.dtype)
    moving = _Sharp(
        loss, params, ravel_pytree(tensor)[0].astype(start.dtype), eta, optimizer, float(momentum)
    )
    path = follow(moving, steps=steps - steps % every, every=every)
    return _result(path.seen, every, learning_rate, limit, unravel(path.end.at))


def _result(
    records: Iterable[Any], every: int, learning_rate: float | int, limit: float, end: PyTree
) -> EdgeOfStability:
    losses, sharpness, error = (np.asarray(part) for part in records)
    times = every * np.arange(len(losses))
    return EdgeOfStability(times, losses, sharpness, error, float(learning_rate), limit, end)


def _limit(optimizer: str, momentum: float | int) -> Callable[[float], float]:
    limit = OPTIMIZERS[optimizer].limit if optimizer in OPTIMIZERS else None
    if limit is None:
        raise ValueError(
            f"optimizer {optimizer!r} has no known stability limit; those of {', '.join(LIMITED)} are known."
        )
    if not (is_number(momentum) and 0 <= momentum < 1):
        raise ValueError(f"momentum must be at least 0 and below 1, got {momentum!r}.")
    return limit


class _Place(NamedTuple):
    """Where training is: parameters, the memory of the optimiser, and the last eigenvector found."""

    at: Array
    memory: Any
    vector: Array


class _Sharp(Moving):
    """Training in full batches; a look at the sharpness starts from the eigenvector of the last one."""

    function: Callable[[Any], Array]
    params: PyTree
    rates: Array
    eta: Array
    optimizer: str = eqx.field(static=True)
    momentum: float = eqx.field(static=True)

    @property
    def directions(self) -> optax.GradientTransformation:
        return OPTIMIZERS[self.optimizer].directions(self.momentum)

    def loss(self, at: Array) -> Array:
        return self.function(ravel_pytree(self.params)[1](at))

    def begin(self, own: None) -> _Place:
        at = ravel_pytree(self.params)[0]
        return _Place(at, self.directions.init(at), jnp.cos(jnp.arange(1.0, at.size + 1)).astype(at.dtype))

    def step(self, state: _Place, t: Array, own: None) -> _Place:
        directions, memory = self.directions.update(jax.grad(self.loss)(state.at), state.memory, state.at)
        return _Place(state.at - self.eta * self.rates * jnp.asarray(directions), memory, state.vector)

    def look(self, state: _Place, own: None) -> tuple[Array, Array, Array]:
        return self.record(state, own)[1]

    def record(self, state: _Place, own: None) -> tuple[_Place, tuple[Array, Array, Array]]:
        gradient = jax.grad(self.loss)
        scales = self.scales(state.memory, gradient(state.at))
        product = jax.linearize(gradient, state.at)[1]
        found = leading_pair(
            lambda v: scales * product(scales * v), state.vector, by=lambda values: values,
            products=_PRODUCTS, rounds=_ROUNDS, tolerance=_TOLERANCE,
        )  # fmt: skip
        value = self.loss(state.at)
        top, error = (jnp.where(jnp.isfinite(value), part, jnp.nan) for part in found[:2])
        return state._replace(vector=found.vector), (value, top, error)

    def scales(self, memory: Any, gradient: Array) -> Array:
        """Roots of what gradients are multiplied by beside eta: rates, and Adam's 1/P."""
        if not OPTIMIZERS[self.optimizer].preconditioned:
            return jnp.sqrt(self.rates)
        seen = jnp.maximum(memory.count, 1)
        squares = jnp.where(memory.count > 0, memory.nu / (1 - SECOND_DECAY**seen), gradient**2)
        return jnp.sqrt(self.rates / (jnp.sqrt(squares) + EPSILON))
