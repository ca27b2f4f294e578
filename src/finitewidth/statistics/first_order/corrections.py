"""`corrections`: the tensors of order 1/width of a network at initialisation."""

import os
from pathlib import Path

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive
from finitewidth._base.either import known, refuse_traced
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.residual_stack import residual_stack
from finitewidth.architecture.saving import save
from finitewidth.expectations.kinked.bent import jumps_of
from finitewidth.statistics.first_order import differentials, fluctuations
from finitewidth.statistics.first_order.differentials import Differentials
from finitewidth.statistics.first_order.fluctuations import check_continuous, expandable, width_ratios
from finitewidth.statistics.first_order.neuron_averages import neuron_averages
from finitewidth.statistics.first_order.residual_corrections import ResidualCorrections, residual_corrections
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs

MOST_INPUTS = 20
_DEFAULT_TOLERANCE = 1e-8

Pair = Float[Array, "n n"]
Quadruple = Float[Array, "n n n n"]


class Corrections(eqx.Module):
    r"""Infinite-width kernels of the output layer and all tensors that multiply 1/width.

    The width is that of the last hidden layer. Labels are stored in the order of the subscripts:
    `V[1,2,3,4]` is $V_{(12)(34)}$, `F[1,3,2,4]` is $F_{1324}$, `B[1,3,2,4]` is $B_{1324}$, `T[1,3,2,4]` is
    $T_{1324}$, `U[1,4,2,3]` is $U_{1423}$, the others as printed.

    Attributes
    ----------
    K, Theta
        NNGP kernel and NTK.
    G1, H1
        Shifts of the two: $E[zz]=K+G_1/n$, $E[H]=\Theta+H_1/n$.
    V, D, F, A, B
        Connected averages of preactivations z and fluctuations of the NTK: V of zzzz, D and F of zz with
        one kernel, A and B of two kernels.
    P, Q, R, S, T, U
        Mean differentials of the NTK: P and Q of dNTK times z, R of the first ddNTK, S, T and U of the
        second. An activation whose slope jumps has none; asking for them raises.
    width
        Width of the last hidden layer.
    """

    K: Pair
    Theta: Pair
    G1: Pair
    V: Quadruple
    H1: Pair
    D: Quadruple
    F: Quadruple
    A: Quadruple
    B: Quadruple
    width: int = eqx.field(static=True)
    differentials: Differentials | None = eqx.field(repr=False)

    def save(self, path: str | os.PathLike) -> Path:
        """Write all tensors into one file, as plain arrays; `finitewidth.load` gives every bit back."""
        return save(self, path)

    P = property(lambda self: self._differential("P"))
    Q = property(lambda self: self._differential("Q"))
    R = property(lambda self: self._differential("R"))
    S = property(lambda self: self._differential("S"))
    T = property(lambda self: self._differential("T"))
    U = property(lambda self: self._differential("U"))

    def _differential(self, letter: str) -> Quadruple:
        if self.differentials is None:
            raise ValueError(
                f"{letter} does not exist for an activation whose slope jumps: it averages the curvature of "
                "the activation times its slope or curvature at the same input, which the jump leaves "
                "undefined; G1, V, H1, D, F, A and B exist."
            )
        return jnp.asarray(getattr(self.differentials, letter))


def corrections(
    net: Layer, x: ArrayLike, *, tolerance: float = _DEFAULT_TOLERANCE
) -> Corrections | ResidualCorrections:
    r"""Every tensor of order 1/width of the network's outputs and tangent kernels at initialisation.

    Parameters
    ----------
    net
        Dense layers with at least one hidden layer; widths and hyperparameters may differ from layer to
        layer. Or residual blocks of one activation and one dense layer each, all of one width and without
        norms, with plain layers among them: K, Theta, V, D, F, A and B.
    x
        At most 20 inputs (points, features). The tensors have points^4 entries, and the averages behind
        them are four-dimensional integrals; `predict(order=1)` contracts them without forming them.
    tolerance
        Relative accuracy of the averages over one neuron.

    Examples
    --------
    >>> import finitewidth as fw
    >>> net = fw.MLP(hidden=(64, 64), activation="tanh", C_b=0.1, C_W=1.3)
    >>> tensors = fw.corrections(net, [[1.0, 0.3]])
    >>> round(float(tensors.V[0, 0, 0, 0] / tensors.K[0, 0] ** 2), 4)
    0.6549
    """
    points = as_inputs("x", x, net)
    refuse_traced("corrections", net, points)
    points = np.asarray(points, dtype=np.float64)
    stack = residual_stack(net)
    if stack is None:
        return dense_corrections(net, points, tolerance=tolerance)
    if stack.width < 2:
        raise ValueError("net has width 1: an expansion in 1/width says nothing there.")
    check_positive("tolerance", tolerance)
    check_continuous(stack.activation)
    return residual_corrections(stack, points @ points.T / points.shape[1], tolerance)


def dense_corrections(
    net: Layer, points: Float[AnyArray, "n d"], *, tolerance: float = _DEFAULT_TOLERANCE
) -> Corrections:
    """The tensors of a stack of dense layers."""
    points = known(points).astype(np.float64)
    net = expandable(net)
    if len(points) > MOST_INPUTS:
        raise ValueError(
            f"x has {len(points)} points; the dense tensors are limited to {MOST_INPUTS}. For more points "
            "predict(..., order=1) contracts them with the data without forming them."
        )
    check_positive("tolerance", tolerance)
    gram = points @ points.T / points.shape[1]
    first, *rest = net.layers
    below = fluctuations.first_layer(gram, first)
    motion = differentials.first_layer(len(gram)) if not jumps_of(net.activation.function)[0] else None
    for layer, ratio in zip(rest, width_ratios(net)[1:], strict=True):
        averages = neuron_averages(net.activation, below.K, tolerance, passed_on=ratio > 0)
        if motion is not None:
            motion = differentials.next_layer(motion, below, averages, layer, ratio)
        below = fluctuations.next_layer(below, averages, layer, ratio)
    tensors = {name: jnp.asarray(t) for name, t in below._asdict().items()}
    return Corrections(**tensors, width=net.hidden[-1], differentials=motion)
