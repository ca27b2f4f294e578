"""Repeat: one rule many times over, compiled once."""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import PyTree

from finitewidth.architecture.sequential import Repeat
from finitewidth.statistics.rules.interface import cross, own
from finitewidth.statistics.rules.pairs import Kernels, PairLaws, packed, unpacked


@own.register
def _(layer: Repeat, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    step = lambda moments, _: own(layer.layer, moments, laws)
    above, features = lax.scan(step, below, length=layer.times)
    return above, inputs_first(features)


@cross.register
def _(layer: Repeat, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
    def step(below, features):
        return packed(cross(layer.layer, unpacked(below), *features, laws)), None

    levels = layers_first((rows, columns))
    return unpacked(lax.scan(step, packed(below), levels, length=layer.times)[0])


def inputs_first(features: PyTree) -> PyTree:
    """Features stacked by a scan, (layers, inputs, ...), with the inputs in front."""
    return jax.tree.map(lambda a: jnp.swapaxes(a, 0, 1), features)


def layers_first(features: PyTree) -> PyTree:
    """The way back, for the next scan."""
    return inputs_first(features)
