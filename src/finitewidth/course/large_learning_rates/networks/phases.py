r"""Phases of real networks: what becomes of training when the step is larger and larger.

Steps are in units of $1/\lambda_0$, with the largest eigenvalue of the tangent kernel before training. The
loss is half the sum of squared errors, so that a frozen kernel is stable up to $\eta\lambda_0=2$.
"""

from collections.abc import Callable, Sequence
from enum import IntEnum
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_whole
from finitewidth._base.follow import follow
from finitewidth.networks.training.descent import Descent, Weights, gradient_descent
from finitewidth.networks.training.optimizers import Optimizer

# A loss that has risen by less is rounded, not raised.
_RISE = 1e-6


class TrainingPhase(IntEnum):
    """What a step makes of training."""

    LAZY = 0
    """The loss falls from the first step on."""
    CATAPULT = 1
    """The loss rises above its start, and then falls below it."""
    DIVERGENT = 2
    """The loss ends above its start, or is no number."""


class TrainingPhases(eqx.Module):
    r"""Training at several steps, each measured by its losses and by the tangent kernel that it ends with."""

    edges: Float[np.ndarray, " etas"]
    r"""$\eta\lambda_0$."""
    kernel: float
    r"""$\lambda_0$."""
    losses: Float[np.ndarray, "etas times"]
    """The loss before the first step and after every step."""
    sharpness: Float[np.ndarray, " etas"]
    r"""$\eta\lambda$ at the end."""

    @property
    def rise(self) -> Float[np.ndarray, " etas"]:
        """The largest loss over the first; infinite for losses that are no numbers."""
        losses = np.where(np.isfinite(self.losses), self.losses, np.inf)
        return losses.max(axis=1) / losses[:, 0]

    @property
    def phases(self) -> Int[np.ndarray, " etas"]:
        """A `TrainingPhase` for every step."""
        converges = self.losses[:, -1] < self.losses[:, 0]
        risen = np.where(self.rise > 1 + _RISE, TrainingPhase.CATAPULT, TrainingPhase.LAZY)
        return np.where(converges, risen, TrainingPhase.DIVERGENT)

    def threshold(self, phase: TrainingPhase) -> float:
        """The middle between the last edge below a phase and the first edge that reaches it."""
        reached = self.phases >= phase
        if not reached.any() or reached[0]:
            return float("nan")
        first = int(np.argmax(reached))
        return float((self.edges[first - 1] + self.edges[first]) / 2)


def training_phases(
    outputs: Callable[[Any], Array],
    params: PyTree,
    y: Float[AnyArray, "points out"],
    *,
    edges: Float[AnyArray, " etas"] | Sequence[float],
    steps: int,
    rates: PyTree | None = None,
) -> TrainingPhases:
    r"""Train one network on half the sum of squared errors, from the same start at each step.

    Parameters
    ----------
    outputs
        A function of the parameters: outputs (points, out) at the training points.
    params
        Parameters to start from.
    y
        Labels (points, out).
    edges
        Steps as multiples $\eta\lambda_0$, ascending.
    steps
        Steps of gradient descent.
    rates
        Learning-rate tensor: one number or a tree of them; none by default.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, finitewidth as fw
    >>> from finitewidth.course.large_learning_rates.networks import training_phases
    >>> net = fw.MLP((256,), "linear", parametrisation="ntk")
    >>> x, y = jnp.array([[1.0, 1.0]]), jnp.array([[0.0]])
    >>> params, rates = net.init(jax.random.key(0), 2), net.learning_rates(2)
    >>> found = training_phases(
    ...     lambda p: net.apply(p, x), params, y, edges=[1.0, 3.0, 6.0], steps=100, rates=rates
    ... )
    >>> found.phases.tolist()
    [0, 1, 2]
    """
    check_whole("steps", steps)
    edges = np.asarray(edges, float)
    if edges.ndim != 1 or not (np.diff(edges) > 0).all() or not edges[0] > 0:
        raise ValueError(f"edges must be positive and ascending, got {edges.tolist()}.")
    shape = jax.eval_shape(outputs, params).shape
    y = jnp.asarray(y, float)
    if shape != y.shape:
        raise ValueError(f"y has shape {y.shape}; the outputs have shape {shape}.")
    rates = jax.tree.broadcast(1.0 if rates is None else rates, params)
    kernel = _largest(outputs, jax.tree.map(lambda p: p[None], params), rates)[0]
    etas = jnp.asarray(edges) / kernel
    plain = gradient_descent(params, 0.0, rates)
    moving = _AtStep(outputs=outputs, params=params, y=y, optimizer=plain)
    path = follow(moving, steps=steps, copies=etas, together=False)
    ends = _largest(outputs, path.end.params, rates)
    return TrainingPhases(edges, float(kernel), path.seen, np.asarray(etas * ends))


class _AtStep(Descent):
    """Half the sum of squared errors; each copy has a step of its own."""

    outputs: Callable[[Any], Array]
    params: PyTree
    y: Array
    optimizer: Optimizer

    def stepping(self, own: Array) -> Optimizer:
        return self.optimizer._replace(eta=own)

    def loss(self, params: PyTree, own: Array, drawn: None) -> Float[Array, ""]:
        return 0.5 * jnp.sum((self.outputs(params) - self.y) ** 2)

    def look(self, state: Weights, own: Array) -> Float[Array, ""]:
        return self.loss(state.params, own, None)


@eqx.filter_jit
def _largest(outputs: Callable[[Any], Array], places: PyTree, rates: PyTree) -> Float[Array, " places"]:
    """The largest eigenvalue of the tangent kernel at every place in parameter space."""

    def one(params: PyTree) -> Array:
        at, unravel = ravel_pytree(params)
        full = jax.tree.map(lambda p, r: jnp.broadcast_to(r, p.shape), params, rates)
        tensor = ravel_pytree(full)[0].astype(at.dtype)
        z, pull = jax.vjp(lambda q: outputs(unravel(q)).ravel(), at)
        jacobian = jax.vmap(lambda u: pull(u)[0])(jnp.eye(z.size, dtype=at.dtype))
        kernel = (jacobian * tensor) @ jacobian.T
        # Training that has run away leaves no numbers, and eigenvalues of those would end the program.
        finite = jnp.isfinite(kernel).all()
        return jnp.where(finite, jnp.linalg.eigvalsh(jnp.where(finite, kernel, 0.0))[-1], jnp.nan)

    return lax.map(one, places)
