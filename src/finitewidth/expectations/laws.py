"""The interface between a neuron and the kernel recursion."""

from abc import abstractmethod
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float, PyTree


class Averages(NamedTuple):
    """Gaussian averages of an activation sigma and of its slope.

    `value` is <sigma_a sigma_b> and `slope` is <sigma'_a sigma'_b>; a = b for one input.
    """

    value: Float[Array, "*shape"]
    slope: Float[Array, "*shape"]


class PairLaw(eqx.Module):
    """Averages of one activation over one or two jointly Gaussian preactivations.

    The recursion calls `features` once per input and layer and `pair` once per tile, so whatever
    depends on one input alone belongs in the features.
    """

    @abstractmethod
    def moments(self, q: Float[Array, "*n"]) -> Averages:
        """Averages for a single input: z_a = z_b ~ N(0, q)."""

    @abstractmethod
    def features(self, q: Float[Array, " n"]) -> PyTree[Float[Array, "n ..."]]:
        """What `pair` needs to know about each input, given its variance q."""

    @abstractmethod
    def pair(self, rows: PyTree, columns: PyTree, k: Float[Array, "rows columns"]) -> Averages:
        """Averages for every pair of a row input and a column input with covariance k."""

    @abstractmethod
    def resolve(self, q: Float[Array, "*n"], tolerance: float) -> "PairLaw":
        """The same law, made accurate to `tolerance` for all variances in q."""


class ExactLaw(PairLaw):
    """A law known in closed form: nothing to resolve."""

    def resolve(self, q: Float[Array, "*n"], tolerance: float) -> "PairLaw":
        return self
