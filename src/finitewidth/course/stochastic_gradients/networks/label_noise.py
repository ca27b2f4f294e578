"""Networks that are trained with labels to which noise is added anew in every step."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_targets, check_key, check_positive, check_whole
from finitewidth._base.estimate import Estimate, sample_mean


class LabelNoiseRuns(eqx.Module):
    """Runs with noisy labels: their losses and the trace of their Hessian."""

    times: Int[np.ndarray, " records"]
    """Steps taken before each record."""
    losses: Float[np.ndarray, "chains records"]
    r"""$\frac1{2m}\sum|f(x_i)-y_i|^2$ with labels free of noise."""
    traces: Float[np.ndarray, "chains records"]
    r"""$\frac1m\sum_i|\nabla f(x_i)|^2$, the trace of the Hessian where all points are fitted."""
    params: PyTree
    """Parameters at the end, one copy for each chain."""

    @property
    def trace(self) -> Estimate:
        """Mean trace at every record."""
        return sample_mean(self.traces)

    @property
    def loss(self) -> Estimate:
        """Mean loss at every record."""
        return sample_mean(self.losses)


def label_noise_runs(
    apply: Callable[[PyTree, Array], Array],
    params: PyTree,
    x: AnyArray,
    y: AnyArray,
    *,
    noise_std: float | int,
    batch_size: int,
    learning_rate: float | int,
    steps: int,
    key: PRNGKeyArray,
    chains: int = 16,
    record_every: int | None = None,
) -> LabelNoiseRuns:
    r"""Train copies of a network by stochastic gradient descent with noisy labels, and follow their flatness.

    Parameters
    ----------
    apply
        Function of (params, x) that returns (points, out) or (points,).
    params
        Where all copies start.
    x, y
        Training inputs and labels.
    noise_std
        Standard deviation of what is added to every label of a batch.
    batch_size, learning_rate
        Points per step, drawn without replacement in every step, and the step on half the mean squared error.
    steps, record_every
        Number of steps, and the steps between two records (a fiftieth of the run by default).
    key
        Randomness of batches and labels.
    chains
        Independent copies.
    """
    check_positive("noise_std", noise_std)
    check_positive("learning_rate", learning_rate)
    x = jnp.asarray(x, float)
    y = as_targets(y, len(x), x.dtype, "y")
    every = max(1, steps // 50) if record_every is None else record_every
    for name, value in (("steps", steps), ("batch_size", batch_size), ("record_every", every)):
        check_whole(name, value)
    check_whole("chains", chains, least=2)
    check_key(key)
    if batch_size > len(x):
        raise ValueError(f"batch_size={batch_size} is larger than the data of {len(x)} points.")
    sizes = jnp.asarray([float(noise_std), float(learning_rate)])
    keys = jax.random.split(key, chains)
    end, losses, traces = _runs(apply, params, x, y, sizes, keys, batch_size, steps // every, every)
    if not np.isfinite(np.asarray(losses)).all():
        raise ValueError(
            f"learning_rate={float(learning_rate):.4g} is beyond stability: the loss runs away; "
            "take a smaller one."
        )
    return LabelNoiseRuns(every * np.arange(steps // every + 1), np.asarray(losses), np.asarray(traces), end)


@eqx.filter_jit
def _runs(apply, params, x, y, sizes, keys, batch_size: int, records: int, every: int):
    noise_std, eta = sizes

    def loss(w, inputs, labels):
        return 0.5 * jnp.sum((apply(w, inputs).reshape(labels.shape) - labels) ** 2) / len(inputs)

    def trace(w):
        slopes = jax.jacrev(lambda v: jnp.ravel(apply(v, x)))(w)
        return sum(jnp.sum(part**2) for part in jax.tree.leaves(slopes)) / len(x)

    def one(key):
        def step(w, t):
            rows_key, noise_key = jax.random.split(jax.random.fold_in(key, t))
            rows = jax.random.permutation(rows_key, len(x))[:batch_size]
            labels = y[rows] + noise_std * jax.random.normal(noise_key, (batch_size, y.shape[1]))
            slopes = jax.grad(loss)(w, x[rows], labels)
            return jax.tree.map(lambda p, g: p - eta * g, w, slopes), None

        def stretch(w, number):
            seen = loss(w, x, y), trace(w), w
            return lax.scan(step, w, number * every + jnp.arange(every))[0], seen

        # A record comes before its steps; the steps after the last record are left out.
        _, (losses, traces, path) = lax.scan(stretch, params, jnp.arange(records + 1))
        return jax.tree.map(lambda p: p[-1], path), losses, traces

    return jax.vmap(one)(keys)
