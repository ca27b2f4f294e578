"""Repeat: one rule many times over, compiled once."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from finitewidth.architecture.sequential import Repeat
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, packed, unpacked


@own.register
def _(layer: Repeat, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    step = lambda moments, _: own(layer.layer, moments, laws)
    above, features = lax.scan(step, below, length=layer.times)
    return above, exchanged(features)


@cross.register
def _(layer: Repeat, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    def step(below, features):
        return packed(cross(layer.layer, unpacked(below), *features, laws)), None

    levels = exchanged((rows, columns))
    return unpacked(lax.scan(step, packed(below), levels, length=layer.times)[0])


def exchanged(features: PyTree) -> PyTree:
    """Features as a scan stacks them, (layers, inputs, ...), as (inputs, layers, ...), and the way back."""
    return jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), features)
