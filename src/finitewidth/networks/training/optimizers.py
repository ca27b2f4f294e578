"""Optimisers by name, each with the geometry that decides about its learning rates."""

import functools
from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, PyTree

from finitewidth._base.checks import is_number
from finitewidth.algorithms.optimizers import MOMENTUM, OPTIMIZERS
from finitewidth.architecture.layer import Layer, Shape, as_shape
from finitewidth.architecture.parametrisation import GEOMETRIES, Geometry
from finitewidth.networks.models import Model, rate_tree

Schedule = optax.Schedule


class Stepping(NamedTuple):
    """Directions from gradients, and the geometry of the steps along them."""

    directions: optax.GradientTransformation
    geometry: Geometry


@functools.cache
def _named(name: str) -> Stepping:
    """The row of a name, made once: a transformation made twice is compiled twice."""
    if name not in OPTIMIZERS:
        raise ValueError(
            f"unknown optimizer {name!r}. Known: {', '.join(OPTIMIZERS)}; or any Optax transformation."
        )
    row = OPTIMIZERS[name]
    return Stepping(row.directions(MOMENTUM), row.geometry)


class Optimizer(NamedTuple):
    """Steps -eta * rate * direction, leaf by leaf; `eta` is the global step, `rates` the tensor."""

    name: str
    directions: optax.GradientTransformation
    rates: PyTree
    eta: Array | Schedule

    def init(self, params: PyTree) -> PyTree:
        """The optimiser's memory before the first step."""
        return self.directions.init(params)

    def step(self, gradient: PyTree, memory: PyTree, params: PyTree, t: Array) -> tuple[PyTree, PyTree]:
        """Parameters and memory after the step number t."""
        directions, memory = self.directions.update(gradient, memory, params)
        eta = self.eta(t) if callable(self.eta) else self.eta
        moved = jax.tree.map(
            lambda p, rate, d: p - (jnp.asarray(eta, p.dtype) * rate * d).astype(p.dtype),
            params,
            self.rates,
            directions,
        )
        return moved, memory


def as_optimizer(
    optimizer: str | optax.GradientTransformation,
    learning_rate: float | Schedule | None,
    model: Model,
    params: PyTree,
    entering: Shape,
    rates: PyTree | None,
) -> Optimizer:
    """An `Optimizer` from a name with a learning rate, or from an Optax transformation with its own."""
    if isinstance(optimizer, str):
        name, method = optimizer, _named(optimizer)
        if learning_rate is None:
            raise ValueError(f"optimizer {optimizer!r} needs a learning_rate.")
        eta = learning_rate if callable(learning_rate) else jnp.asarray(_positive(learning_rate))
    elif isinstance(optimizer, optax.GradientTransformation):
        if learning_rate is not None:
            raise ValueError("an Optax transformation brings its own learning rate: leave learning_rate out.")
        # Optax returns what is to be added to the parameters.
        name, method, eta = "optax", Stepping(optimizer, "gradient"), jnp.asarray(-1.0)
    else:
        raise TypeError(f"optimizer must be a name or an Optax transformation, got {optimizer!r}.")
    if isinstance(rates, str):
        if rates not in GEOMETRIES:
            raise ValueError(
                f"unknown rates {rates!r}. Known: {', '.join(GEOMETRIES)}; or a tree of numbers."
            )
        return Optimizer(name, method.directions, rate_tree(model, params, entering, None, rates), eta)
    tensor = rate_tree(model, params, entering, rates, method.geometry)
    return Optimizer(name, method.directions, tensor, eta)


def network_optimizer(
    net: Layer, entering: Shape | int, optimizer: str, learning_rate: float | Schedule
) -> optax.GradientTransformation:
    """An Optax transformation with the learning rates of a network in its parametrisation.

    Parameters
    ----------
    net
        The network; "mup" and the other parametrisations say how rates scale with width, group by group.
    entering
        Shape of one input, or the number of its features.
    optimizer
        "sgd", "momentum", "nesterov", "adam", "sign" or "muon".
    learning_rate
        The global step, or a function of the step number.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, optax, finitewidth as fw
    >>> net = fw.MLP((64, 64), "relu", parametrisation="mup:32")
    >>> params = net.init(jax.random.key(0), 5)
    >>> adam = fw.networks.network_optimizer(net, 5, "adam", 0.01)
    >>> gradient = jax.tree.map(jnp.ones_like, params)
    >>> step, _ = adam.update(gradient, adam.init(params), params)
    >>> [round(float(layer.weight[0, 0]), 6) for layer in step]      # 1, 32/64 and 32/64 of the step
    [-0.01, -0.005, -0.005]
    """
    method, shape = _named(optimizer), as_shape("entering", entering)
    if not callable(learning_rate):
        _positive(learning_rate)

    def scaled(updates: PyTree, params: PyTree | None = None) -> PyTree:
        rates = jax.tree.broadcast(net.learning_rates(shape, method.geometry), updates)
        return jax.tree.map(lambda rate, d: (rate * d).astype(d.dtype), rates, updates)

    return optax.chain(
        method.directions, optax.stateless(scaled), optax.scale_by_learning_rate(learning_rate)
    )


def anchored_descent(
    net: Layer, entering: Shape | int, eta: float, ridge: float | int
) -> optax.GradientTransformation:
    r"""Gradient descent of a network with a spring to its start: weight decay towards the initial weights.

    One step is $-\eta\,(\lambda_\mu\,\partial_\mu L + r\,(\theta_\mu - \theta_\mu(0)))$: descent of the loss
    plus $\frac r2\sum_\mu(\theta_\mu-\theta_\mu(0))^2/\lambda_\mu$, with the network's learning-rate tensor.
    """
    # A function with a name travels to the workers of a cluster; one whose numbers are leaves, such as a
    # `Partial`, finds the program of an earlier call.
    pulled = jax.tree_util.Partial(_pulled_back, net.learning_rates(entering), eta, ridge)
    return optax.GradientTransformation(_start, pulled)


def _start(params: PyTree) -> PyTree:
    return params


def _pulled_back(
    tensor: PyTree,
    eta: float,
    ridge: float | int,
    updates: PyTree,
    state: PyTree,
    params: PyTree | None = None,
) -> tuple[PyTree, PyTree]:
    rates = jax.tree.broadcast(tensor, params)
    # The trainer multiplies by the rates; a parameter with rate zero never left its start.
    pull = jax.tree.map(
        lambda p, p0, rate: (p - p0) / jnp.where(rate > 0, rate, 1).astype(p.dtype), params, state, rates
    )
    return jax.tree.map(lambda g, q: -eta * (g + ridge * q), updates, pull), state


def _positive(learning_rate: float) -> float:
    if not (is_number(learning_rate) and 0 < learning_rate < float("inf")):
        raise ValueError(f"learning_rate must be positive and finite, got {learning_rate!r}.")
    return float(learning_rate)
