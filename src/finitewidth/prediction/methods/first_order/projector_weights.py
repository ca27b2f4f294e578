r"""Weights with which the tensors of a slightly moving kernel enter the trained network.

To first order, training sums products of residual modes over nested times. Each weight is a chain (see
`finitewidth.algorithms.clocks`), times the step once for every tensor.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.either import holds_tracer, known, library
from finitewidth.algorithms.clocks import Clock, Node
from finitewidth.algorithms.interface import SpectralAlgorithm

# How often the free label D stands first in the dNTK, and elsewhere, for each weight.
FIRST_CHANGE = {"a2": (1, 0), "b2": (1, 1)}
# How often each arrangement of the ddNTK enters with each weight.
ARRANGEMENTS = ("I_Dabc", "I_aDbc", "J_Dabc", "J_Dbac", "J_aDbc", "J_abDc")
SECOND_CHANGE = {
    "a3": (1, 0, 0, 0, 0, 0),
    "b3": (1, 0, 1, 1, 0, 0),
    "c3": (1, 1, 2, 0, 0, 0),
    "d3": (1, 1, 1, 1, 1, 1),
}


class ProjectorWeights(NamedTuple):
    r"""Weights of all sources, in the eigenbasis of the training kernel.

    The first axis is the start of the chain: entry 0 ends with the source itself, entry $1+q$ lets the
    source decay in mode q afterwards (only before the end of training, where the two are proportional).
    """

    h: Float[AnyArray, "start k"]
    hh: Float[AnyArray, "start k k"]
    a2: Float[AnyArray, "start k k"]
    b2: Float[AnyArray, "start k k"]
    a3: Float[AnyArray, "start k k k"]
    b3: Float[AnyArray, "start k k k"]
    c3: Float[AnyArray, "start k k k"]
    d3: Float[AnyArray, "start k k k"]


def projector_weights(t: Float[AnyArray, " k"], algorithm: SpectralAlgorithm) -> ProjectorWeights:
    """All weights for eigenvalues t of the training kernel; the algorithm's choices must be made."""
    t = known(t).astype(float)
    if algorithm.converged:
        return _at_the_end(t, algorithm.clock().residual_step)
    ticking = algorithm.clock()
    if holds_tracer(t, ticking.rate, ticking.end):
        first = _chains(t, ticking, ())
        later = jax.vmap(lambda q: _chains(t, ticking, (q,)))(t)
        return ProjectorWeights(*(jnp.concatenate([a[None], b]) for a, b in zip(first, later, strict=True)))
    starts = [_chains(t, ticking, ())] + [_chains(t, ticking, (q,)) for q in t]
    return ProjectorWeights(*(np.stack(parts) for parts in zip(*starts, strict=True)))


def first_weights(t: Float[AnyArray, " k"], algorithm: SpectralAlgorithm) -> Float[AnyArray, "start k"]:
    """Only the weights `h` of one mode, which many points allow too."""
    if algorithm.converged:
        return 1 / t[None]
    ticking = algorithm.clock()
    return ticking.rate * np.stack(
        [ticking.chain([(), (t,)]), *(ticking.chain([(), (np.array([q]),), (t,)]) for q in t)]
    )


def _at_the_end(t: Float[AnyArray, " k"], eta: float | Array) -> ProjectorWeights:
    k, l, m = t[:, None, None], t[:, None], t
    x_k, x_l = 1 - eta * k, 1 - eta * l
    L2 = k + l - eta * k * l
    L3 = L2 + m * (1 - eta * k) * (1 - eta * l)
    weights = (
        1 / t,
        1 / (t[:, None] * t),
        (eta / (2 * L2))[..., 0],
        (x_k / (k * L2))[..., 0],
        -(eta**2) / (6 * L3),
        -eta / 2 * x_k * x_l / (L2 * L3),
        -eta / 2 * x_k / (k * L3),
        -(x_k**2) * x_l / (k * L2 * L3),
    )
    return ProjectorWeights(*(w[None] for w in weights))


def _chains(
    t: Float[AnyArray, " k"], ticking: Clock, start: tuple[np.floating | Array, ...]
) -> list[AnyArray]:
    before: list[Node] = [(), *((library(q).stack([q]),) for q in start)]
    chain = lambda *nodes: ticking.chain([*before, *nodes])
    c, eta = ticking.rate, ticking.residual_step
    k, l = t[:, None], t
    weights = [
        c * chain((t,)),
        c**2 * chain((k,), (l,)),
        eta**2 / 2 * chain((k, l)),
        c**2 * ticking.factor(k) * chain((k,), (k, l)),
    ]
    k, l, m = t[:, None, None], t[:, None], t
    x_k, x_l = ticking.factor(k), ticking.factor(l)
    return [
        *weights,
        -(eta**3) / 6 * chain((k, l, m)),
        -(eta**3) / 2 * x_k * x_l * chain((k, l), (k, l, m)),
        -(eta**3) / 2 * x_k * chain((k,), (k, l, m)),
        -(c**3) * x_k**2 * x_l * chain((k,), (k, l), (k, l, m)),
    ]
