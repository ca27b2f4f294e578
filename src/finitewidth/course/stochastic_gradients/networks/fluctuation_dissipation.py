r"""Relations between fluctuation and dissipation in the steady state of stochastic gradient descent.

A step is $\theta'=\theta-\eta g_B$. Once the law of $\theta$ is stationary,
$\langle|\theta'-c|^2\rangle=\langle|\theta-c|^2\rangle$ for any fixed c, hence at every step size

$$\langle(\theta-c)\cdot\nabla L\rangle=\frac\eta2\langle|g_B|^2\rangle.$$

The right side holds second moments, not covariances. It needs batches that are independent of the weights:
with shuffled passes the rest of a pass is known, and the left side differs.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.flatten_util import ravel_pytree
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from finitewidth._base.checks import check_key, check_positive, check_whole
from finitewidth._base.estimate import Estimate, sample_mean
from finitewidth._base.follow import Moving, follow
from finitewidth.measure.loss.gradient_noise import BatchLoss, as_batches, check_loss

SAMPLINGS = ("without replacement", "with replacement", "passes")


class FluctuationDissipation(eqx.Module):
    """Both sides of the relation along many runs, each record averaged over the steps up to the next."""

    dissipations: Float[np.ndarray, "chains records"]
    r"""$(\theta-c)\cdot\nabla L$ with the gradient of all points."""
    fluctuations: Float[np.ndarray, "chains records"]
    r"""$\frac\eta2|g_B|^2$."""
    losses: Float[np.ndarray, "chains records"]
    """The loss of all points."""
    positions: Float[np.ndarray, "chains records params"]
    """Parameters, in the order of `jax.flatten_util.ravel_pytree`; none unless they were asked for."""
    params: PyTree
    """Parameters at the end, one copy for each chain."""

    @property
    def dissipation(self) -> Estimate:
        """The left side."""
        return sample_mean(self.dissipations.mean(axis=1))

    @property
    def fluctuation(self) -> Estimate:
        """The right side."""
        return sample_mean(self.fluctuations.mean(axis=1))

    @property
    def loss(self) -> Estimate:
        """The mean loss."""
        return sample_mean(self.losses.mean(axis=1))

    @property
    def ratio(self) -> Estimate:
        """Dissipation over fluctuation: 1 in a steady state, more while the loss still falls."""
        left, right = self.dissipations.mean(axis=1), self.fluctuations.mean(axis=1)
        value = left.mean() / right.mean()
        return Estimate.of(value, sample_mean(left - value * right).sem / right.mean(), len(left) - 1)

    @property
    def covariance(self) -> Estimate:
        """Covariance of the parameters, around their mean over all chains."""
        if not self.positions.size:
            raise ValueError("no positions were kept: pass keep_positions=True.")
        centred = self.positions - self.positions.mean(axis=(0, 1))
        return sample_mean(np.einsum("cti,ctj->cij", centred, centred) / centred.shape[1])


class _Steady(Moving):
    """Plain steps on batches, and both sides of the relation; each copy has the key of its batches."""

    mean_loss: BatchLoss
    params: PyTree
    data: PyTree
    eta: Array
    burn_in: Array
    batch_size: int = eqx.field(static=True)
    sampling: str = eqx.field(static=True)
    every: int = eqx.field(static=True)
    keep: bool = eqx.field(static=True)

    def rows(self, key: PRNGKeyArray, t: Array) -> Array:
        """The points of step t."""
        b, m = self.batch_size, len(jax.tree.leaves(self.data)[0])
        if self.sampling == "with replacement":
            return jax.random.randint(jax.random.fold_in(key, t), (b,), 0, m)
        if self.sampling == "without replacement":
            return jax.random.permutation(jax.random.fold_in(key, t), m)[:b]
        k = m // b
        order = jax.random.permutation(jax.random.fold_in(key, t // k), m)
        return lax.dynamic_slice(order, ((t % k) * b,), (b,))

    def loss(self, w: Array, data: PyTree) -> Array:
        return self.mean_loss(ravel_pytree(self.params)[1](w), data)

    def slope(self, w: Array, key: PRNGKeyArray, t: Array) -> Array:
        rows = self.rows(key, t)
        return jax.grad(self.loss)(w, jax.tree.map(lambda part: part[rows], self.data))

    def begin(self, own: PRNGKeyArray) -> tuple[Array, Array, Array]:
        def step(t: Array, w: Array) -> Array:
            return w - self.eta * self.slope(w, own, t)

        settled = lax.fori_loop(0, self.burn_in, step, ravel_pytree(self.params)[0])
        return settled, settled, jnp.zeros((), settled.dtype)

    def step(self, state: tuple[Array, Array, Array], t: Array, own: PRNGKeyArray):
        w, settled, squares = state
        g = self.slope(w, own, t + self.burn_in)
        return w - self.eta * g, settled, squares + g @ g

    def look(self, state: tuple[Array, Array, Array], own: PRNGKeyArray) -> tuple[Array, ...]:
        """The left side now, the right side since the last look, the loss, and the place."""
        w, settled, squares = state
        height, gradient = jax.value_and_grad(self.loss)(w, self.data)
        fluctuation = self.eta / 2 * squares / self.every
        return (w - settled) @ gradient, fluctuation, height, w if self.keep else w[:0]

    def record(self, state: tuple[Array, Array, Array], own: PRNGKeyArray):
        return (*state[:2], jnp.zeros_like(state[2])), self.look(state, own)


def fluctuation_dissipation(
    loss: BatchLoss,
    params: PyTree,
    data: PyTree,
    *,
    batch_size: int,
    learning_rate: float | int,
    steps: int,
    burn_in: int,
    key: PRNGKeyArray,
    sampling: str = "without replacement",
    chains: int = 16,
    full_every: int | None = None,
    keep_positions: bool = False,
) -> FluctuationDissipation:
    r"""Run stochastic gradient descent on any JAX loss, and measure both sides of the relation.

    Parameters
    ----------
    loss
        Function of (params, batch): the mean over the points of a batch, with any regulariser.
    params
        Where all runs start. A network with flat directions has no steady state: give it some weight decay.
    data
        Arrays with one row for each point, such as (x, y).
    batch_size, learning_rate
        b and $\eta$.
    steps, burn_in
        Steps that are measured, and steps before; c is where a run is after the latter.
    key
        Randomness of the batches.
    sampling
        How a batch is drawn: "without replacement" or "with replacement" anew in every step, or in shuffled
        "passes" over the data.
    chains
        Independent runs, from which standard errors come.
    full_every
        Steps between two gradients of all points; the number of batches in the data by default.
    keep_positions
        Whether to keep the parameters at every record.

    Returns
    -------
    FluctuationDissipation
        Both sides, the loss, and what follows: `ratio`, `covariance`.
    """
    data, points = as_batches(data)
    check_whole("batch_size", batch_size)
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling must be one of {', '.join(SAMPLINGS)}, got {sampling!r}.")
    if batch_size > points and sampling != "with replacement":
        raise ValueError(f"batch_size={batch_size} is larger than the data of {points} points.")
    check_positive("learning_rate", learning_rate)
    every = max(1, points // batch_size) if full_every is None else full_every
    for name, value in (("steps", steps), ("full_every", every)):
        check_whole(name, value)
    check_whole("burn_in", burn_in, least=0)
    check_whole("chains", chains, least=2)
    check_key(key)
    check_loss(loss, params, data)
    at, unravel = ravel_pytree(params)
    moving = _Steady(
        loss, params, data, jnp.asarray(float(learning_rate), at.dtype), jnp.asarray(burn_in),
        batch_size, sampling, every, keep_positions,
    )  # fmt: skip
    records = -(-steps // every)
    path = follow(moving, steps=records * every, every=every, copies=jax.random.split(key, chains))
    end = path.end[0]
    if not np.isfinite(np.asarray(end)).all():
        raise ValueError(
            f"learning_rate={float(learning_rate):.4g} is beyond stability: the weights run away; "
            "take a smaller one."
        )
    dissipations, fluctuations, losses, positions = path.seen
    # What fluctuates between two looks is seen at the second.
    return FluctuationDissipation(
        dissipations[:, :-1], fluctuations[:, 1:], losses[:, :-1], positions[:, :-1], jax.vmap(unravel)(end)
    )
