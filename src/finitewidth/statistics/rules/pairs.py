"""What the rules of infinite width pass from layer to layer."""

import functools
import operator
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
from jax import lax
from jaxtyping import Array, Complex, Float

from finitewidth.activations import Activation
from finitewidth.expectations.laws import PairLaw


class Kernels(NamedTuple):
    """NNGP kernel and NTK: matrices between two sets of inputs (n1, n2), or every input with itself (n,)."""

    nngp: Float[Array, "*shape"]
    ntk: Float[Array, "*shape"]


class PairLaws(eqx.Module):
    """The pair law of every activation of a network, accurate enough for the variances it meets."""

    activations: tuple[Activation, ...] = eqx.field(static=True)
    laws: tuple[PairLaw, ...]

    def __getitem__(self, activation: Activation) -> PairLaw:
        """The law of one activation; a layer that this network does not know of gets the default one."""
        if activation in self.activations:
            return self.laws[self.activations.index(activation)]
        return activation.law()


def outer(rows: Float[Array, " rows"], columns: Float[Array, " columns"]) -> Float[Array, "rows columns"]:
    """Products of a number of each row input and a number of each column input."""
    return rows[:, None] * columns[None, :]


def weighted(weights: Sequence[float | Array], each: Sequence[Kernels]) -> Kernels:
    """Sums of kernels with weights, NNGP kernels and NTKs alike."""
    total = lambda kernels: functools.reduce(operator.add, map(operator.mul, weights, kernels))
    return Kernels(total([k.nngp for k in each]), total([k.ntk for k in each]))


def packed(kernels: Kernels) -> Complex[Array, "*shape"]:
    """Both kernels as one complex array.

    XLA computes each real array in a loop of its own, and would work out what the two kernels share
    twice; one complex array is one loop.
    """
    return lax.complex(kernels.nngp, kernels.ntk)


def unpacked(array: Complex[Array, "*shape"]) -> Kernels:
    """The two kernels again."""
    return Kernels(lax.real(array), lax.imag(array))
