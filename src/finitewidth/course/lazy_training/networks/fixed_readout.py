r"""One hidden layer with its output weights kept fixed, trained by small steps.

$z(x) = n^{-1/2}\sum_k v_k\sigma(w_k\cdot x)$ with $v_k=\pm1$. Units come in pairs with equal w and opposite
v, so that the network starts at zero.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.networks.training.training import train


class Neurons(NamedTuple):
    """Hidden weights w and output weights v."""

    hidden: Float[Array, "*n_d"]
    output: Float[Array, "*n"]


_HIDDEN_ONLY = Neurons(jnp.ones(()), jnp.zeros(()))


def outputs(neurons: Neurons, x: Float[Array, "m d"]) -> Float[Array, "m 1"]:
    """z at every input, for tanh neurons."""
    n = neurons.output.shape[0]
    return (jnp.tanh(x @ neurons.hidden.T) @ neurons.output / jnp.sqrt(n))[:, None]


def hidden_weights(neurons: Neurons) -> Float[Array, "n d"]:
    """What is recorded in training."""
    return neurons.hidden


def paired_start(key: PRNGKeyArray, width: int, n_in: int) -> Neurons:
    """Standard normal hidden weights, every unit with a partner of opposite output weight."""
    half = jax.random.normal(key, (width // 2, n_in))
    ones = jnp.ones(width // 2)
    return Neurons(jnp.concatenate([half, half]), jnp.concatenate([ones, -ones]))


@jax.jit
def hidden_kernel(neurons: Neurons, x: Float[Array, "m d"]) -> Float[Array, "m m"]:
    """Tangent kernel of the hidden weights, from their gradients."""
    gradients = jax.jacrev(lambda w: outputs(neurons._replace(hidden=w), x)[:, 0])(neurons.hidden)
    flat = gradients.reshape(len(x), -1)
    return flat @ flat.T


class LazyRun(NamedTuple):
    """What happened in one run; `times` are those of gradient flow on the mean loss L = |z - y|^2 / 2m."""

    times: Float[np.ndarray, " times"]
    losses: Float[np.ndarray, " times"]
    movement: Float[np.ndarray, "times n"]
    kernels: Float[np.ndarray, "times m m"]


def train_hidden(
    neurons: Neurons,
    x: Float[np.ndarray, "m d"],
    y: Float[np.ndarray, " m"],
    step: float,
    steps: int,
    records: int,
) -> LazyRun:
    """Descend on the hidden weights, with records of how far each moved and of the kernel."""
    m = len(x)
    run = train(
        outputs,
        neurons,
        x,
        y[:, None],
        steps=steps,
        learning_rate=step,
        rates=_HIDDEN_ONLY,
        record={"hidden": hidden_weights},
        record_every=steps // records,
    )
    residuals, movement, kernels = _along(run.recorded["hidden"], neurons.output, jnp.asarray(x), y)
    return LazyRun(
        times=m * step * run.times.astype(float),
        losses=np.sum(np.asarray(residuals) ** 2, axis=1) / (2 * m),
        movement=np.asarray(movement),
        kernels=np.asarray(kernels),
    )


@jax.jit
def _along(
    hidden: Float[Array, "times n d"],
    output: Float[Array, " n"],
    x: Float[Array, "m d"],
    y: Float[np.ndarray | Array, " m"],
) -> tuple[Float[Array, "times m"], Float[Array, "times n"], Float[Array, "times m m"]]:
    """Residuals, distances from the start and kernels at the recorded times."""
    states = jax.vmap(lambda w: Neurons(w, output))(hidden)
    residuals = jax.vmap(lambda state: outputs(state, x)[:, 0] - y)(states)
    movement = jnp.linalg.norm(hidden - hidden[0], axis=-1)
    return residuals, movement, jax.lax.map(lambda state: hidden_kernel(state, x), states)
