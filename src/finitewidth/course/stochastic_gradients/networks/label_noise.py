"""Networks that are trained with labels to which noise is added anew in every step."""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, PRNGKeyArray, PyTree

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_targets, check_key, check_positive, check_whole
from finitewidth._base.estimate import Estimate, sample_mean
from finitewidth._base.follow import follow
from finitewidth.networks.training.descent import Descent, Weights, gradient_descent
from finitewidth.networks.training.optimizers import Optimizer


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
    moving = _NoisyLabels(
        apply=apply,
        params=params,
        x=x,
        y=y,
        noise_std=jnp.asarray(float(noise_std)),
        batch_size=batch_size,
        optimizer=gradient_descent(params, learning_rate),
    )
    # The steps after the last record are left out.
    path = follow(moving, steps=steps - steps % every, every=every, copies=jax.random.split(key, chains))
    losses, traces = path.seen
    if not np.isfinite(losses).all():
        raise ValueError(
            f"learning_rate={float(learning_rate):.4g} is beyond stability: the loss runs away; "
            "take a smaller one."
        )
    return LabelNoiseRuns(path.times, losses, traces, path.end.params)


class _NoisyLabels(Descent):
    """Half the mean squared error of a batch whose labels are noisy; each copy has a key of its own."""

    apply: Callable[[PyTree, Array], Array]
    params: PyTree
    x: Array
    y: Array
    noise_std: Array
    batch_size: int = eqx.field(static=True)
    optimizer: Optimizer

    def draw(self, t: Int[Array, ""], own: PRNGKeyArray) -> tuple[Array, Array]:
        rows_key, noise_key = jax.random.split(jax.random.fold_in(own, t))
        rows = jax.random.permutation(rows_key, len(self.x))[: self.batch_size]
        noise = jax.random.normal(noise_key, (self.batch_size, self.y.shape[1]))
        return self.x[rows], self.y[rows] + self.noise_std * noise

    def loss(self, params: PyTree, own: PRNGKeyArray, drawn: tuple[Array, Array]) -> Float[Array, ""]:
        x, y = drawn
        return 0.5 * jnp.sum((self.apply(params, x).reshape(y.shape) - y) ** 2) / len(x)

    def look(self, state: Weights, own: PRNGKeyArray) -> tuple[Array, Array]:
        slopes = jax.jacrev(lambda w: jnp.ravel(self.apply(w, self.x)))(state.params)
        trace = sum(jnp.sum(part**2) for part in jax.tree.leaves(slopes)) / len(self.x)
        return self.loss(state.params, own, (self.x, self.y)), jnp.asarray(trace)
