"""The window map for single neurons, in JAX: what sampling moves instead of whole segments of starts."""

from typing import NamedTuple

import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Bool, Float


class Intervals(NamedTuple):
    """Decay, kind and share of a step of every interval; see `window_map.Paths`."""

    decay: Float[Array, " intervals"]
    step: Bool[Array, " intervals"]
    share: Float[Array, " intervals"]


def followed(
    starts: Float[Array, "2 strata *windows"],
    left: Float[Array, "intervals *windows"],
    right: Float[Array, "intervals *windows"],
    slopes: tuple[float, float],
    intervals: Intervals,
    every_node: bool,
) -> tuple[Array, Array]:
    """Both integrands of the window integrals, averaged over the strata: two (nodes, 2, *windows) arrays.

    Parameters
    ----------
    starts
        Positions, on the left and on the right of the kink.
    left, right
        Displacements in every interval on either side.
    slopes
        Slopes on either side.
    every_node
        Whether to look after every interval; otherwise the first axis of the results has length one.
    """
    low, high = slopes
    activated = lambda z: low * z + (high - low) * jnp.maximum(z, 0)
    before = activated(starts)

    def integrands(z: Array, V: Float[Array, "2 *windows"], interval) -> tuple[Array, Array]:
        own = jnp.stack([low * V[0], high * V[1]])
        where, value = _hopping(z, starts, low, high, *interval)
        where, value = jnp.where(z == 0, where, z), jnp.where(z == 0, value, activated(z))
        return (where - starts - V[:, None]).mean(axis=1), (value - before - own[:, None]).mean(axis=1)

    def advance(state, interval):
        z, V = state
        l, r, decay, step, share = interval
        z = lax.cond(step, _step, _flow, z, starts, l, r, decay, share)
        V = decay * V + jnp.stack([l, r])
        return (z, V), integrands(z, V, interval) if every_node else None

    start = (starts, jnp.zeros_like(starts[:, 0]))
    (z, V), nodes = lax.scan(advance, start, (left, right, *intervals))
    if nodes is not None:
        return nodes
    A, B = integrands(z, V, (left[-1], right[-1], *(part[-1] for part in intervals)))
    return A[None], B[None]


def _hopping(z, z0, low: float, high: float, left, right, decay, step, share) -> tuple[Array, Array]:
    """Mean place and activation of a neuron that is held at the kink while it makes small steps."""
    l, r = (share * (d + (1 - decay) * z0) for d in (left, right))
    hops = (l > 0) & (r < 0)
    span = jnp.where(hops, l - r, 1)
    place = jnp.where(hops, (l + r) / 2, 0)
    return place, jnp.where(hops, low * place + (high - low) * l**2 / (2 * span), 0)


def _step(z: Array, z0: Array, left: Array, right: Array, decay: Array, share: Array) -> Array:
    return z0 + decay * (z - z0) + jnp.where(z > 0, right, left)


def _flow(z: Array, z0: Array, left: Array, right: Array, decay: Array, share: Array) -> Array:
    """An interval of flow; see `window_map`."""
    ahead = share * (left - right) / 2
    pull = (1 - decay) * z0
    on_right, held = z > 0, z == 0
    own, other = jnp.where(on_right, right, left), jnp.where(on_right, left, right)
    away = jnp.where(on_right, -1, 1)
    d = (decay - 1) * z + pull + own
    crosses = (z + d) * away > 0
    rest = jnp.where(crosses, 1 + z / jnp.where(crosses, d, 1), 0)
    beyond = rest * (pull + other)
    passes = (beyond * away > 0) | (pull + other == 0)
    across = jnp.where(passes, beyond + away * ahead, 0)
    l, r = pull + left, pull + right
    resting = ((l >= 0) & (r <= 0)) | (l == 0) | (r == 0)
    leaves = jnp.where(resting, 0, jnp.where(l + r > 0, r + ahead, l - ahead))
    return jnp.where(held, leaves, jnp.where(crosses, across, z + d))
