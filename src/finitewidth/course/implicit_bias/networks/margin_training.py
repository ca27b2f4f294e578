r"""Training of classifiers past zero error, as far as it takes for the margin to settle.

On separable classes the loss falls like 1/t and directions settle like $1/\log t$: plain steps never
arrive. Linear models are followed in $\tau=\log t$. Any other model descends on $\log\sum_ie^{-y_if(x_i)}$
with steps of rate / $\max_i|\nabla f(x_i)|^2$: $\log t$ grows by a fixed amount in every step, for linear
models by rate times the squared margin over the largest $|x_i|^2$.
"""

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PyTree
from scipy.integrate import solve_ivp

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_numbers, check_positive, check_whole
from finitewidth._base.follow import Moving, follow

_EARLY, _ACCURACY = np.log(1e-12), 1e-10
# Beyond it e^m has no place in 64 bits.
_LARGEST = 700.0


def separable_flow(
    x: Float[AnyArray, "train features"],
    y: Float[AnyArray, " train"],
    log_times: Float[AnyArray, " times"],
    *,
    loss: Literal["logistic", "exponential"] = "logistic",
    start: Float[AnyArray, " features"] | None = None,
) -> Float[np.ndarray, "times features"]:
    """Weights of a linear classifier under gradient flow on its mean loss, at moments given by log t.

    Parameters
    ----------
    x, y
        Features, and labels of -1 and 1.
    log_times
        Increasing, from -20 on.
    loss
        "logistic" or "exponential".
    start
        First weights; zero when left out.
    """
    if loss not in ("logistic", "exponential"):
        raise ValueError(f"loss must be 'logistic' or 'exponential', got {loss!r}.")
    rows = np.asarray(x, float) * as_signs(y)[:, None]
    w = np.zeros(rows.shape[1]) if start is None else np.asarray(start, float)

    def rates(tau: float, w: np.ndarray) -> np.ndarray:
        m = rows @ w
        weight = tau - m if loss == "exponential" else tau - np.logaddexp(0.0, m)
        return np.exp(np.minimum(weight, _LARGEST)) @ rows / len(rows)

    times = np.asarray(log_times, float)
    run = solve_ivp(rates, (_EARLY, times[-1]), w, "LSODA", times, rtol=_ACCURACY, atol=_ACCURACY)
    if len(run.t) < len(times):
        raise ValueError(f"the flow could not be followed beyond log t = {run.t[-1]:.3g}: {run.message}")
    return run.y.T


class MarginTraining(NamedTuple):
    r"""A model that was trained towards a large margin.

    Attributes
    ----------
    params
        Its weights at the end.
    margins
        The smallest $y_if(x_i)$, at every record.
    norms
        The length of all weights, at every record.
    log_losses
        $\log\sum_ie^{-y_if(x_i)}$, at every record.
    log_times
        $\log t$ of gradient descent on the sum of exponentials that these steps amount to, at every record.
    """

    params: PyTree
    margins: Float[np.ndarray, " records"]
    norms: Float[np.ndarray, " records"]
    log_losses: Float[np.ndarray, " records"]
    log_times: Float[np.ndarray, " records"]


def train_to_margin(
    model: Callable[[PyTree, Array], Array],
    params: PyTree,
    x: Any,
    y: Float[AnyArray, " train"],
    *,
    steps: int,
    rate: float = 0.5,
    records: int = 50,
) -> MarginTraining:
    """Descend on the logarithm of the exponential loss, with steps that suit the gradients of the outputs.

    Parameters
    ----------
    model
        A function of (params, x) with one output for each point, or an object with such a method `apply`.
    params, x
        Weights to start from, and inputs.
    y
        Labels of -1 and 1.
    steps
        Steps of descent.
    rate
        Of 1 / max_i |df(x_i)|^2; above 2 the logarithm of the loss may rise.
    records
        How often margins and norms are kept.
    """
    check_whole("steps", steps)
    check_whole("records", records)
    check_positive("rate", rate)
    if rate >= 2:
        raise ValueError(
            f"rate={rate:.3g} is not below 2, where descent on the logarithm of the loss diverges."
        )
    apply = getattr(model, "apply", model)
    signs = jnp.asarray(as_signs(y))
    x = jnp.asarray(x)
    if jnp.size(apply(params, x)) != len(signs):
        raise ValueError(f"the model must have one output for each of the {len(signs)} points.")
    every = max(1, -(-steps // records))
    moving = _TowardsMargin(apply, params, x, signs, jnp.asarray(rate))
    path = follow(moving, steps=-(-steps // every) * every, every=every)
    margins, norms, losses, times = (part[1:] for part in path.seen)
    if not np.isfinite(margins).all():
        raise ValueError(f"rate={rate:.3g} is beyond stability: the weights are no longer finite. Lower it.")
    return MarginTraining(ravel_pytree(params)[1](path.end[0]), margins, norms, losses, times)


class _TowardsMargin(Moving):
    """Steps on the logarithm of the loss, as long as the gradients of the outputs allow."""

    apply: Callable[[PyTree, Array], Array]
    params: PyTree
    x: Array
    signs: Array
    rate: Array

    def margins(self, w: Array) -> Array:
        return self.signs * self.apply(ravel_pytree(self.params)[1](w), self.x).ravel()

    def begin(self, own: None) -> tuple[Array, Array]:
        return ravel_pytree(self.params)[0], jnp.asarray(-jnp.inf)

    def step(self, state: tuple[Array, Array], t: Array, own: None) -> tuple[Array, Array]:
        w, log_time = state
        m, back = jax.vjp(self.margins, w)
        gradients = jax.vmap(lambda unit: back(unit)[0])(jnp.eye(len(m)))
        size = self.rate / jnp.sum(gradients**2, axis=1).max()
        # A step of this size on log L is one of size / L on L.
        log_time = jnp.logaddexp(log_time, jnp.log(size) - jax.nn.logsumexp(-m))
        return w + size * jax.nn.softmax(-m) @ gradients, log_time

    def look(self, state: tuple[Array, Array], own: None) -> tuple[Array, ...]:
        w, log_time = state
        m = self.margins(w)
        return m.min(), jnp.linalg.norm(w), jax.nn.logsumexp(-m), log_time


def as_signs(y: Any) -> Float[np.ndarray, " train"]:
    """Labels -1 and 1."""
    y = np.asarray(as_numbers("y", y), float).ravel()
    if not np.isin(y, (-1.0, 1.0)).all():
        raise ValueError(f"y must hold -1 and 1, got {', '.join(f'{v:g}' for v in np.unique(y)[:4])}.")
    return y
