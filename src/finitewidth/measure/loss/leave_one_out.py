r"""Leaving out one training point and training again to the end, for networks with dense Hessians.

The objective is $\frac1n\sum_{j\ne i}l_j+\frac r2|\theta|^2$: the factor 1/n stays when a point goes.
Newton's method with absolute eigenvalues goes down at saddles, too, and ends at a minimum to rounding.
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from finitewidth._base.checks import check_positive, check_whole, is_number
from finitewidth.architecture.layer import Layer
from finitewidth.networks.losses import Loss, as_labels, as_loss
from finitewidth.networks.models import Apply, Inputs, Model, as_model, as_points, check_arguments

MOST_PARAMETERS = 1000
# Halvings of a Newton step that are tried.
_HALVINGS = 12


class LeaveOneOut(NamedTuple):
    """What leaving out a point did, for every point that was left out."""

    points: Int[np.ndarray, " chosen"]
    """Which."""
    changes: Float[np.ndarray, " chosen"]
    """Change of the mean test loss."""
    gradients: Float[np.ndarray, " chosen"]
    """Length of the gradient where training without the point ended."""


def fit_to_the_end(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x: Inputs,
    y: Inputs,
    *,
    ridge: float,
    loss: str = "cross_entropy",
    tolerance: float = 1e-10,
    most_steps: int = 300,
) -> PyTree:
    """Parameters at a minimum of the mean loss plus ridge/2 |params|^2, by Newton's method.

    Parameters
    ----------
    apply_or_net, params
        A network or a function of (params, x) with at most 1,000 parameters, and where to start.
    x, y
        Training points and labels.
    ridge
        Weight of the penalty, positive.
    loss
        "cross_entropy", "mse" or "logistic".
    tolerance
        Length of the gradient at which the fit ends.
    most_steps
        Newton steps at most; an error says that they were not enough.
    """
    task = _Task.of(apply_or_net, params, x, y, ridge, loss)
    check_positive("tolerance", tolerance)
    check_whole("most_steps", most_steps)
    start, unravel = ravel_pytree(params)
    w, gradient = _fitted(
        task, unravel, start, jnp.ones((1, len(task.x)), start.dtype), tolerance, most_steps
    )
    if not float(gradient[0]) <= tolerance:
        raise ValueError(
            f"after {most_steps} Newton steps the gradient is {float(gradient[0]):.2g}, not {tolerance:g}: "
            "allow more steps, or a larger ridge."
        )
    return unravel(w[0])


def leave_one_out(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x: Inputs,
    y: Inputs,
    x_test: Inputs,
    y_test: Inputs,
    *,
    ridge: float,
    loss: str = "cross_entropy",
    points: Sequence[int] | Int[np.ndarray, " chosen"] | None = None,
    share: float | int = 1,
    tolerance: float = 1e-10,
    most_steps: int = 300,
) -> LeaveOneOut:
    """Leave out points one at a time, train again, and see how the test loss changed.

    Parameters
    ----------
    apply_or_net, params
        A network or a function of (params, x) with at most 1,000 parameters, at its trained weights, such as
        `fit_to_the_end` returns.
    x, y, x_test, y_test
        Training and test points with labels.
    ridge, loss, tolerance
        As for `fit_to_the_end`.
    points
        Which training points to leave out; all by default.
    share
        How much of the weight of a point goes. A small share changes the test loss by this share of what
        influence functions predict.
    most_steps
        Newton steps at most. One step is the influence function with the Hessian of the other points, which
        knows the leverage of the point that is left out.
    """
    task = _Task.of(apply_or_net, params, x, y, ridge, loss)
    check_whole("most_steps", most_steps)
    if not (is_number(share) and 0 < share <= 1):
        raise ValueError(f"share must be above 0 and at most 1, got {share!r}.")
    chosen = np.arange(len(task.x)) if points is None else np.asarray(points)
    if chosen.ndim != 1 or not np.issubdtype(chosen.dtype, np.integer) or not len(chosen):
        raise ValueError(f"points must be row numbers of x, got {points!r}.")
    if chosen.min() < 0 or chosen.max() >= len(task.x):
        raise ValueError(f"points must lie between 0 and {len(task.x) - 1}, got {points!r}.")
    start, unravel = ravel_pytree(params)
    kept = jnp.asarray(1.0 - share * np.eye(len(task.x))[chosen], start.dtype)
    w, gradients = _fitted(task, unravel, start, kept, tolerance, most_steps)
    other = _Task.of(apply_or_net, params, x_test, y_test, ridge, loss)
    losses = np.asarray(_test_losses(other, unravel, jnp.concatenate([start[None], w])))
    return LeaveOneOut(chosen, losses[1:] - losses[0], np.asarray(gradients))


class _Task(eqx.Module):
    """A model, its points and the objective."""

    model: Model
    loss: Loss = eqx.field(static=True)
    x: Array
    y: Array
    ridge: float

    @classmethod
    def of(cls, apply_or_net, params: PyTree, x: Inputs, y: Inputs, ridge: float, loss: str) -> "_Task":
        model, by = as_model(apply_or_net), as_loss(loss)
        x = as_points("x", x, model)
        check_arguments(model, params, x)
        check_positive("ridge", ridge)
        count = ravel_pytree(params)[0].size
        if count > MOST_PARAMETERS:
            raise ValueError(
                f"the model has {count} parameters; dense Hessians are for {MOST_PARAMETERS} at most: train "
                "without the point by `train`."
            )
        outputs = jax.eval_shape(model, params, x)
        return cls(model, by, x, as_labels(by, y, outputs.shape, outputs.dtype), float(ridge))

    def losses(self, params: PyTree) -> Float[Array, " points"]:
        """The loss of every point."""
        one = lambda z, y: self.loss.value(z[None], y[None])
        return jax.vmap(one)(self.model(params, self.x), self.y)


@eqx.filter_jit
def _fitted(
    task: _Task, unravel, start: Array, kept: Float[Array, "fits points"], tolerance, most_steps: int
):
    """Minima for several choices of points, and the lengths of the gradients there."""

    def objective(w: Array, keep: Array) -> Array:
        return jnp.mean(keep * task.losses(unravel(w))) + task.ridge / 2 * jnp.sum(w**2)

    def one(keep: Array):
        gradient = lambda w: jax.grad(objective)(w, keep)

        def unfinished(state):
            _, length, t = state
            return (length > tolerance) & (t < most_steps)

        def step(state):
            w, _, t = state
            g = gradient(w)
            values, vectors = jnp.linalg.eigh(jax.hessian(objective)(w, keep))
            sizes = jnp.maximum(jnp.abs(values), 1e-12 * jnp.abs(values).max())
            move = vectors @ ((vectors.T @ g) / sizes)
            shares = 0.5 ** jnp.arange(_HALVINGS)
            tried = w - shares[:, None] * move
            found = jax.vmap(lambda v: objective(v, keep))(tried)
            # Near the end all differ by rounding alone: there a whole step is right.
            whole = found[0] <= objective(w, keep) + 1e-13
            best = jnp.where(whole, 0, jnp.argmin(jnp.where(jnp.isnan(found), jnp.inf, found)))
            w = tried[best]
            return w, jnp.linalg.norm(gradient(w)), t + 1

        w, length, _ = lax.while_loop(unfinished, step, (start, jnp.linalg.norm(gradient(start)), 0))
        return w, length

    return jax.vmap(one)(kept)


@eqx.filter_jit
def _test_losses(task: _Task, unravel, ends: Float[Array, "fits params"]) -> Float[Array, " fits"]:
    return jax.vmap(lambda w: jnp.mean(task.losses(unravel(w))))(ends)
