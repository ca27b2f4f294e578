r"""Kernels of the NTK of scale-invariant networks at one input, exact at every width.

An activation that is linear on either side of zero is $\sigma(z)=sz$ with a slope s that depends on the sign
of z. At one input and without biases the signs of a layer are fair coins, independent of every even function
of the weights below, so averages over paths close on a few moments of one or two neurons of a layer:

- A of $z_1^2z_2^2$;
- $Q_{11},Q_{12},Q_\times$ of $z_1^2H_{11},\ z_1^2H_{22},\ z_1z_2H_{12}$;
- $T_{11},T_{12},T_\times$ of $H_{11}^2,\ H_{11}H_{22},\ H_{12}^2$.

With $A_m$ the mean m-th power of the slopes and $g=A_4/A_2^2$ a layer of n neurons mixes equal and different
neurons, $[u,v]=\frac gnu+(1-\frac1n)v$, and a neuron above has
$X_{11}=X_{12}+2X_\times$ because its weights are Gaussian.
"""

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.expectations.kinked.piecewise_linear import Slopes, slopes_of
from finitewidth.statistics.wide.inputs import check_described

RELU = Slopes(0.0, 1.0)


class NTKMoments(NamedTuple):
    """Mean and mean square of the NTK of one output at one input."""

    mean: float
    second: float

    @property
    def ratio(self) -> float:
        """Mean square over squared mean; one if all networks had the same NTK."""
        return self.second / self.mean**2


def ntk_moments(net: Layer, square: float = 1.0) -> NTKMoments:
    r"""Exact moments of the NTK of a network without biases, its activation linear on either side of zero.

    Parameters
    ----------
    net
        `C_b` and `lambda_b` zero in every layer; any widths.
    square
        $|x|^2/n_0$ of the input.
    """
    check_described(net)
    net, slopes = dense_stack(net), checked_slopes(net)
    A2 = (slopes.left**2 + slopes.right**2) / 2
    g = (slopes.left**4 + slopes.right**4) / 2 / A2**2
    C, lam = float(net.C_W[0]) * square, float(net.lambda_W[0]) * square
    K, Theta = C, lam
    A, Q12, Qx, T12, Tx = C**2, C * lam, 0.0, lam**2, 0.0
    for l, n in enumerate(net.hidden, start=1):
        C, lam = float(net.C_W[l]) * A2, float(net.lambda_W[l]) * A2
        mixed = lambda u, v, n=n: g / n * u + (1 - 1 / n) * v
        Q11, T11 = Q12 + 2 * Qx, T12 + 2 * Tx
        squares, with_kernel = mixed(3 * A, A), mixed(Q11, Q12)
        A = C**2 * squares
        Q12, Qx = C * lam * squares + C**2 * with_kernel, C**2 * mixed(Q11, Qx)
        T12 = lam**2 * squares + 2 * lam * C * with_kernel + C**2 * mixed(T11, T12)
        Tx = C**2 * mixed(T11, Tx)
        K, Theta = C * K, lam * K + C * Theta
    return NTKMoments(Theta, T12 + 2 * Tx)


def ntk_ratio_limit(
    depth_over_width: Float[np.ndarray, "*s"], slopes: Slopes = RELU
) -> Float[np.ndarray, "*s"]:
    r"""$E[H^2]/E[H]^2$ of critical networks whose depth and width both grow, $\beta=\sum_l1/n_l$ being fixed.

    The recursion becomes linear differential equations in $\beta$ with the solution, $a=3g$,

    $$e^{(a-1)\beta}\Big[\frac13+\frac4{3a\beta}-\frac{4(1-e^{-a\beta})}{3a^2\beta^2}\Big];$$

    a = 6 for ReLU, 3 for linear networks.
    """
    beta = np.asarray(depth_over_width, dtype=float)
    a = 6 * (slopes.left**4 + slopes.right**4) / (slopes.left**2 + slopes.right**2) ** 2
    passed = a * beta
    bracket = 1 / 3 + 4 / (3 * passed) + 4 * np.expm1(-passed) / (3 * passed**2)
    return np.asarray(np.exp((a - 1) * beta) * bracket)


def path_count(net: Layer, n_in: int) -> int:
    """The number of paths from all inputs to all outputs: the product of all sizes."""
    net = dense_stack(net)
    return math.prod((n_in, *net.hidden, net.n_out))


def path_sum(
    weights: Sequence[Float[np.ndarray, "_ _"]], x: Float[np.ndarray, " n_in"], slopes: Slopes = RELU
) -> Float[np.ndarray, " n_out"]:
    """Outputs of a network without biases, path by path: input times weights times slopes along it.

    Every path is visited, so this is for small networks.
    """
    gates, z = [], np.asarray(x, dtype=float)
    for w in weights[:-1]:
        z = w @ z
        gates.append(np.where(z >= 0, slopes.right, slopes.left))
        z = gates[-1] * z
    outputs = np.zeros(len(weights[-1]))
    for path in itertools.product(range(len(x)), *(range(len(w)) for w in weights)):
        strength = float(x[path[0]])
        for w, i, j in zip(weights, path[1:], path, strict=False):
            strength *= float(w[i, j])
        for gate, i in zip(gates, path[1:], strict=False):
            strength *= float(gate[i])
        outputs[path[-1]] += strength
    return outputs


def checked_slopes(net: Layer, *, rates: bool = True) -> Slopes:
    """The slopes of a network whose moments are known exactly; refuses others.

    With `rates` biases must not learn either.
    """
    net = dense_stack(net)
    slopes = slopes_of(net.activation.function)
    if slopes is None:
        raise ValueError(
            f"activation {net.activation.name!r} is not linear on either side of zero; exact moments are "
            "known for 'linear', 'relu', 'leaky_relu' and 'abs'."
        )
    names = ("C_b", "lambda_b") if rates else ("C_b",)
    values = {name: tuple(map(float, getattr(net, name))) for name in names}
    if any(any(value) for value in values.values()):
        raise ValueError(
            f"{' and '.join(f'{name} = {value}' for name, value in values.items())} must be zero: with "
            "biases the signs of the preactivations are not fair coins."
        )
    return slopes
