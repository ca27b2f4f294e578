r"""Training with noisy labels: what the noise adds to the loss, and the way that it makes networks go.

Where all points are fitted, noise of standard deviation $\sigma$ in the labels, new in every step, gives
the gradient of a batch of b points the covariance $\frac{\sigma^2}bH$. The drift along the valley is then
the gradient of a penalty.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, Int, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_targets, check_positive, check_whole

Numbers = AnyArray | float | int


class LabelNoisePath(eqx.Module):
    """A network that is trained with noisy labels, on average."""

    times: Int[np.ndarray, " records"]
    """Steps taken before each record."""
    losses: Float[Array, " records"]
    r"""$\frac1{2m}\sum|f(x_i)-y_i|^2$ with labels free of noise."""
    traces: Float[Array, " records"]
    r"""$\frac1m\sum_i|\nabla f(x_i)|^2$, the trace of the Hessian where all points are fitted."""
    params: PyTree
    """Parameters at the end."""


def label_noise_penalty(
    apply: Callable[[PyTree, Array], Array],
    params: PyTree,
    x: AnyArray,
    alpha: Numbers,
    eta: Numbers,
) -> Array:
    r"""What noise in the labels adds to the loss, $-\frac\alpha2\log\det(1-\frac\eta{2m}\Theta)$.

    $\Theta$ is the tangent kernel on the m points. To leading order the penalty is $\frac{\alpha\eta}4$
    times the trace of the Hessian. With labels of noise $\sigma$, new in every step, and batches of b points
    $\alpha=\sigma^2/b$.
    """
    flat, unravel = ravel_pytree(params)
    outputs = lambda w: jnp.ravel(apply(unravel(w), jnp.asarray(x, float)))
    slopes = jax.jacrev(outputs)(flat)
    inside = jnp.eye(len(slopes)) - eta / (2 * len(x)) * slopes @ slopes.T
    return -alpha / 2 * jnp.linalg.slogdet(inside)[1]


def label_noise_path(
    apply: Callable[[PyTree, Array], Array],
    params: PyTree,
    x: AnyArray,
    y: AnyArray,
    *,
    noise_std: float | int,
    batch_size: int,
    eta: float | int,
    steps: int,
    record_every: int | None = None,
) -> LabelNoisePath:
    r"""The mean way of a network under stochastic gradient descent with noisy labels.

    Gradient descent on the loss plus `label_noise_penalty`, which holds once the points are fitted: noise
    then has the covariance $\frac{\sigma^2}bH$ and nothing else, and drives the network to where the trace
    of its Hessian is small. For networks of a few hundred parameters and a few dozen points.

    Parameters
    ----------
    apply
        Function of (params, x) that returns (points, out) or (points,).
    params
        Parameters that fit the points.
    x, y
        Training inputs and labels.
    noise_std
        Standard deviation $\sigma$ of the noise added to each label in each step.
    batch_size
        Points per step, b.
    eta
        The step on the mean loss $\frac1{2m}\sum|f(x_i)-y_i|^2$.
    steps, record_every
        Number of steps, and the steps between two records (a fiftieth of the run by default).
    """
    check_positive("noise_std", noise_std)
    check_positive("eta", eta)
    check_whole("steps", steps)
    check_whole("batch_size", batch_size)
    x = jnp.asarray(x, float)
    if batch_size > len(x):
        raise ValueError(f"batch_size={batch_size} is larger than the data of {len(x)} points.")
    every = max(1, steps // 50) if record_every is None else record_every
    check_whole("record_every", every)
    y = as_targets(y, len(x), x.dtype, "y")
    alpha = float(noise_std) ** 2 / batch_size
    sizes = jnp.asarray([alpha, float(eta)])
    end, losses, traces = _label_noise_path(apply, params, x, y, sizes, steps // every, every)
    if not np.isfinite(np.asarray(losses)).all():
        raise ValueError(
            f"eta={float(eta):.4g} is beyond stability: the loss runs away; take a smaller step."
        )
    return LabelNoisePath(every * np.arange(steps // every + 1), losses, jnp.asarray(traces), end)


@eqx.filter_jit
def _label_noise_path(apply, params, x, y, sizes, records: int, every: int):
    alpha, eta = sizes

    def loss(w):
        return 0.5 * jnp.sum((apply(w, x).reshape(y.shape) - y) ** 2) / len(x)

    def trace(w):
        slopes = jax.jacrev(lambda v: jnp.ravel(apply(v, x)))(w)
        return sum(jnp.sum(part**2) for part in jax.tree.leaves(slopes)) / len(x)

    pull = jax.grad(lambda w: loss(w) + label_noise_penalty(apply, w, x, alpha, eta))

    def step(w, _):
        return jax.tree.map(lambda p, g: p - eta * g, w, pull(w)), None

    def stretch(w, _):
        seen = loss(w), trace(w)
        return lax.scan(step, w, None, length=every)[0], (seen, w)

    # A record comes before its steps; the steps after the last record are left out.
    _, ((losses, traces), path) = lax.scan(stretch, params, None, length=records + 1)
    return jax.tree.map(lambda p: p[-1], path), losses, traces
