r"""How the deviations from infinite width grow with depth, for one input.

At criticality the four-point vertex grows linearly, $V^{(\ell)}/K^2\to\nu\,\ell$ (layers counted from the
first, which is Gaussian): the excess kurtosis of a preactivation is $3V/(nK^2)$, so depth over width is the
expansion parameter and $\nu$ its price per layer. The coefficient belongs to the universality class:

- scale-invariant: $\nu=3A_4/A_2^2-1$ with $A_m$ the mean m-th power of the two slopes (ReLU 5, linear 2);
- K* = 0: $\nu=2/3$ whatever the activation, since layer by layer it becomes linear
  ($V'=2K^2+\chi_\parallel^2V$) while K falls as a power of depth;
- half-stable: $\nu=C_W^2(\langle\sigma^4\rangle-\langle\sigma^2\rangle^2)/K^{*2}$ at the fixed point.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import Elementwise
from finitewidth._base.checks import is_number
from finitewidth.architecture.activations import Activation, as_activation
from finitewidth.architecture.critical_point import critical_point
from finitewidth.architecture.layer import Layer
from finitewidth.statistics.first_order import fluctuations
from finitewidth.statistics.first_order.fluctuations import expandable, width_ratios
from finitewidth.statistics.first_order.one_input import one_input_averages


class DepthGrowth(eqx.Module):
    """Kernels and fluctuation tensors of one input in every layer, the output last.

    Attributes
    ----------
    K, Theta
        NNGP kernel and NTK.
    G1, V, H1, D, F, A, B
        Coefficients of 1/width, as in `corrections`, all labels equal.
    width
        Width of the layer below; infinite for the first layer, which is exactly Gaussian.
    """

    K: Float[np.ndarray, " depth"]
    Theta: Float[np.ndarray, " depth"]
    G1: Float[np.ndarray, " depth"]
    V: Float[np.ndarray, " depth"]
    H1: Float[np.ndarray, " depth"]
    D: Float[np.ndarray, " depth"]
    F: Float[np.ndarray, " depth"]
    A: Float[np.ndarray, " depth"]
    B: Float[np.ndarray, " depth"]
    width: Float[np.ndarray, " depth"]

    @property
    def excess_kurtosis(self) -> Float[np.ndarray, " depth"]:
        """Of one preactivation (the last: of one output), to first order in 1/width."""
        return 3 * self.V / (self.width * self.K**2)

    @property
    def ntk_variance(self) -> Float[np.ndarray, " depth"]:
        """Variance of one neuron's NTK relative to its mean squared, to first order in 1/width."""
        return (self.A + 2 * self.B) / (self.width * self.Theta**2)


def depth_growth(net: Layer, square: float = 1.0) -> DepthGrowth:
    r"""Deviations from infinite width in every layer, for one input with $|x|^2/n_0$ equal to `square`.

    Any continuous activation, kinks included; the cost grows linearly with depth.

    Examples
    --------
    >>> import finitewidth as fw
    >>> growth = fw.depth_growth(fw.MLP(hidden=(100,) * 4, activation="relu"))
    >>> [round(float(v), 6) for v in growth.V / growth.K**2]
    [0.0, 5.0, 10.0, 15.0, 20.0]
    """
    if not (is_number(square) and 0 < square < np.inf):
        raise ValueError(f"square must be finite and positive, got {square!r}.")
    net = expandable(net)
    first, *rest = net.layers
    below = fluctuations.first_layer(np.full((1, 1), float(square)), first)
    levels = [below]
    for layer, ratio in zip(rest, width_ratios(net)[1:], strict=True):
        averages = one_input_averages(net.activation, float(below.K[0, 0]))
        below = fluctuations.next_layer(below, averages, layer, ratio)
        levels.append(below)
    tensors = (np.array([tensor.item() for tensor in column]) for column in zip(*levels, strict=True))
    return DepthGrowth(*tensors, width=np.array([np.inf, *net.hidden], dtype=float))


def vertex_slope(activation: str | Activation | Elementwise) -> float:
    r"""The growth $\nu$ of $V/K^2$ per layer at the critical point; NaN where there is none.

    Examples
    --------
    >>> import finitewidth as fw
    >>> round(fw.vertex_slope("relu"), 6), round(fw.vertex_slope("tanh"), 6)
    (5.0, 0.666667)
    """
    activation = as_activation(activation)
    point = critical_point(activation)
    if not point.exists:
        return float("nan")
    if point.universality_class == "K*=0":
        return 2 / 3
    K = 1.0 if point.universality_class == "scale-invariant" else point.K_star
    pair, four = one_input_averages(activation, K)
    return point.C_W**2 * float(four[0, 0, 0, 0].item() - pair[0, 0].item() ** 2) / K**2
