"""What the rules of infinite width pass from layer to layer."""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
from jax import lax
from jaxtyping import Array, Bool, Complex, Float

from finitewidth.architecture.activations import Activation
from finitewidth.architecture.layer import Shape
from finitewidth.expectations.laws import PairLaw


class Kernels(NamedTuple):
    """NNGP kernel and NTK: matrices between two sets of inputs (n1, n2), or every input with itself (n,).

    Where inputs have positions, the kernels have axes of positions too; see
    `finitewidth.statistics.wide.rules.positions`.
    """

    nngp: Float[Array, "*shape"]
    ntk: Float[Array, "*shape"]


class Sites(NamedTuple):
    """Where a rule is asked, and how the kernels are laid out.

    Attributes
    ----------
    entering
        Shape of one input of the layer, (*positions, channels); empty where inputs have no positions.
    pairs_above
        Whether the layers above need the kernels between different positions.
    listed
        Whether the pairs of inputs are a list (pairs,); otherwise they are a matrix (rows, columns).
    """

    entering: Shape = ()
    pairs_above: bool = False
    listed: bool = False


class PairLaws(eqx.Module):
    """The pair law of every activation of a network, accurate enough for the variances it meets.

    `true` is a number that the compiler does not know to be true: see `fenced` in
    `finitewidth.statistics.wide.rules.positions`.
    """

    activations: tuple[Activation, ...] = eqx.field(static=True)
    laws: tuple[PairLaw, ...]
    sites: Sites = eqx.field(static=True, default=Sites())
    true: Bool[Array, ""] | None = None

    def __getitem__(self, activation: Activation) -> PairLaw:
        """The law of one activation; a layer that this network does not know of gets the default one."""
        if activation in self.activations:
            return self.laws[self.activations.index(activation)]
        return activation.law()

    def at(self, sites: Sites, true: Bool[Array, ""] | None = None) -> "PairLaws":
        """The same laws asked elsewhere."""
        return PairLaws(self.activations, self.laws, sites, self.true if true is None else true)


def outer(rows: Float[Array, " rows"], columns: Float[Array, " columns"]) -> Float[Array, "rows columns"]:
    """Products of a number of each row input and a number of each column input."""
    return rows[:, None] * columns[None, :]


def weighted(weights: Sequence[float | Array], each: Sequence[Kernels]) -> Kernels:
    """Sums of kernels with weights, NNGP kernels and NTKs alike."""
    scaled = [Kernels(w * k.nngp, w * k.ntk) for w, k in zip(weights, each, strict=True)]
    return functools.reduce(lambda a, b: Kernels(a.nngp + b.nngp, a.ntk + b.ntk), scaled)


def packed(kernels: Kernels) -> Complex[Array, "*shape"]:
    """Both kernels as one complex array.

    XLA computes each real array in a loop of its own, and would work out what the two kernels share
    twice; one complex array is one loop.
    """
    return lax.complex(kernels.nngp, kernels.ntk)


def unpacked(array: Complex[Array, "*shape"]) -> Kernels:
    """The two kernels again."""
    return Kernels(lax.real(array), lax.imag(array))
