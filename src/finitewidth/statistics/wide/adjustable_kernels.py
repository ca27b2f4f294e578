"""Kernels of an MLP whose depth and variances are moved by hand: compiled once, then milliseconds a move."""

import itertools
import math

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import Elementwise
from finitewidth._base.checks import check_positive, check_whole, is_number
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.mlp import MLP
from finitewidth.expectations.hermite import HermiteSeries
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs
from finitewidth.statistics.wide.kernels import default_laws, variances_met
from finitewidth.statistics.wide.rules.mlp import every_layer, every_layer_of_pairs
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws

Range = tuple[float | int, float | int]


class AdjustableKernels(eqx.Module):
    """Kernels of all pairs of a few inputs above every layer of an MLP, as functions of C_W and C_b.

    Attributes
    ----------
    activation, deepest
        Of the network: its neurons, and how many affine layers it has at most.
    x
        Inputs (points, features).
    error
        Largest share of the averages of one layer that the Hermite series leaves out, for parallel inputs and
        the largest variances in reach; zero for an activation with a closed form.
    """

    activation: Activation = eqx.field(static=True)
    deepest: int = eqx.field(static=True)
    x: Float[Array, "points features"]
    error: float = eqx.field(static=True)
    laws: PairLaws

    @property
    def terms(self) -> int | None:
        """Number of terms of the Hermite series; None for a closed form."""
        (law,) = self.laws.laws
        return law.terms if isinstance(law, HermiteSeries) else None

    def __call__(self, C_W: float | int | Array, C_b: float | int | Array) -> Kernels:
        """NNGP kernel and NTK above every affine layer, each (deepest, points, points)."""
        # Plain numbers would be parts of the program, and each new one would compile it anew.
        return _layers(self, jnp.asarray(C_W, self.x.dtype), jnp.asarray(C_b, self.x.dtype))

    def at(self, depth: int, C_W: float | int | Array, C_b: float | int | Array) -> Kernels:
        """NNGP kernel and NTK (points, points) of the network with `depth` affine layers."""
        check_whole("depth", depth)
        if depth > self.deepest:
            raise ValueError(f"depth={depth} is more than the deepest network here, {self.deepest} layers.")
        return Kernels(*(kernel[depth - 1] for kernel in self(C_W, C_b)))

    def net(self, C_W: float | int | Array, C_b: float | int | Array) -> MLP:
        """The deepest network; its widths do not matter."""
        return MLP((1,) * (self.deepest - 1), self.activation, C_b, C_W)


def adjustable_kernels(
    activation: str | Activation | Elementwise,
    x: ArrayLike,
    *,
    deepest: int,
    C_W: Range,
    C_b: Range,
    tolerance: float | int = 1e-6,
    most_terms: int = 256,
) -> AdjustableKernels:
    """Kernels for all depths and variances in a range: one program, however they are moved.

    `kernels` chooses its Hermite series anew for every network and compiles it for every depth. Here the
    series is chosen once, for the corners of the range.

    Parameters
    ----------
    activation
        A name, an `Activation`, or any elementwise function.
    x
        Inputs (points, features), a few hundred at most.
    deepest
        Largest number of affine layers.
    C_W, C_b
        The least and the largest variance of weights and of biases.
    tolerance
        Relative accuracy of each layer's averages at the largest variances, for an activation without closed
        form.
    most_terms
        Largest number of Hermite terms, whatever the tolerance: they are what a move costs. The `error` of
        the result says what they leave out.

    Examples
    --------
    >>> import numpy as np, finitewidth as fw
    >>> x = np.linspace(-1, 1, 5)[:, None]
    >>> kernels = fw.adjustable_kernels("tanh", x, deepest=10, C_W=(0.5, 2.0), C_b=(0.0, 0.5))
    >>> kernels(1.2, 0.1).ntk.shape
    (10, 5, 5)
    >>> same = fw.kernels(fw.MLP((64,) * 3, "tanh", C_b=0.1, C_W=1.2), x)
    >>> bool(abs(kernels.at(4, 1.2, 0.1).ntk - same.ntk).max() < 1e-6)
    True
    """
    check_whole("deepest", deepest)
    check_whole("most_terms", most_terms, least=8)
    check_positive("tolerance", tolerance)
    neurons = as_activation(activation)
    corners = itertools.product(_range("C_W", C_W, positive=True), _range("C_b", C_b))
    nets = [MLP((1,) * (deepest - 1), neurons, C_b=b, C_W=W) for W, b in corners]
    # A point at zero is allowed where C_b can be positive: without biases its kernels are zero.
    points = as_inputs("x", x, nets[-1])
    laws = default_laws(nets[0])
    (law,) = laws.laws
    if not isinstance(law, HermiteSeries) or deepest == 1:
        return AdjustableKernels(neurons, deepest, points, 0.0, laws)
    # The own variances decide, and they are those of inputs with one feature of the same length.
    lengths = jnp.sqrt(jnp.mean(points**2, axis=1, keepdims=True))
    met = [np.concatenate(variances_met(net, laws, lengths)[0], axis=None) for net in nets]
    series, error = law.resolve_within(np.concatenate(met), tolerance, most_terms)
    return AdjustableKernels(neurons, deepest, points, error, PairLaws(laws.activations, (series,)))


@eqx.filter_jit
def _layers(kernels: AdjustableKernels, C_W: Float[Array, ""], C_b: Float[Array, ""]) -> Kernels:
    net, x = kernels.net(C_W, C_b), kernels.x
    square = jnp.sum(x**2, axis=1) / x.shape[1]
    own, features = every_layer(net, Kernels(square, jnp.zeros_like(square)), kernels.laws)
    gram = x @ x.T / x.shape[1]
    start = Kernels(gram, jnp.zeros_like(gram))
    pairs = every_layer_of_pairs(net, start, features, features, kernels.laws)
    here = jnp.arange(len(x))
    return jax.tree.map(lambda pair, own: pair.at[:, here, here].set(own), pairs, own)


def _range(name: str, limits: Range, positive: bool = False) -> Range:
    least, largest = limits
    known = is_number(least) and is_number(largest) and 0 <= least <= largest < math.inf
    if not known or (positive and least == 0):
        what = "positive" if positive else "zero or positive"
        raise ValueError(f"{name} must be the least and the largest variance, both {what}, got {limits!r}.")
    return limits
