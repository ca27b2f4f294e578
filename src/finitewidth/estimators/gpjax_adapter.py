"""The class behind `gpjax_kernel`; importing this module imports GPJax."""

from typing import Any, Literal

import equinox as eqx
import jax
import lineax as lx
import numpy as np
import paramax
from gpjax.kernels import AbstractKernel
from gpjax.kernels.computations import AbstractKernelComputation
from gpjax.parameters import PositiveReal
from jaxtyping import Array, Float

from finitewidth.architecture.layer import Layer
from finitewidth.statistics.wide.kernels import kernels, trajectory


class TiledComputation(AbstractKernelComputation):
    """Whole matrices from the kernels of a network, instead of one pair of points after the other."""

    def _gram(self, kernel: "NetworkKernel", x: Float[Array, "n d"]) -> Float[Array, "n n"]:
        return getattr(kernels(kernel.network(), kernel.slice_input(x)), kernel.which)

    def _cross_covariance(
        self, kernel: "NetworkKernel", x: Float[Array, "n d"], y: Float[Array, "m d"]
    ) -> Float[Array, "n m"]:
        pair = kernels(kernel.network(), kernel.slice_input(x), kernel.slice_input(y))
        return getattr(pair, kernel.which)

    def _diagonal(self, kernel: "NetworkKernel", inputs: Float[Array, "n d"]) -> lx.AbstractLinearOperator:
        own = getattr(trajectory(kernel.network(), kernel.slice_input(inputs)), kernel.which)[-1]
        return lx.TaggedLinearOperator(lx.DiagonalLinearOperator(own), lx.positive_semidefinite_tag)


class NetworkKernel(AbstractKernel):
    """The NNGP kernel or the NTK of an infinitely wide network; C_b and C_W are parameters of GPJax."""

    wrapped: Any = eqx.field(kw_only=True)
    which: str = eqx.field(static=True, kw_only=True)
    name = "Network"

    def __init__(self, net: Layer, which: Literal["nngp", "ntk"], trainable: bool):
        self.which = which
        self.wrapped = jax.tree_util.tree_map_with_path(
            lambda path, leaf: _parameter(path, leaf, trainable), net
        )
        super().__init__(compute_engine=TiledComputation())

    def network(self) -> Layer:
        """The network with the values that its parameters have now."""
        return paramax.unwrap(self.wrapped)

    def __call__(self, x: Float[Array, " d"], y: Float[Array, " d"]) -> Float[Array, ""]:
        pair = kernels(self.network(), self.slice_input(x)[None], self.slice_input(y)[None])
        return getattr(pair, self.which)[0, 0]


def _parameter(path: tuple, leaf: Any, trainable: bool) -> Any:
    """A variance that GPJax may change, or a number that it must leave alone."""
    variance = jax.tree_util.keystr(path[-1:], simple=True) in ("C_b", "C_W")
    if trainable and variance and bool(np.all(np.asarray(leaf) > 0)):
        return PositiveReal(leaf)
    return paramax.non_trainable(leaf) if eqx.is_array(leaf) else leaf
