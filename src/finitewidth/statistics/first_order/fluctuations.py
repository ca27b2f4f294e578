r"""First corrections in 1/width to the law of preactivations and tangent kernels at initialisation.

With n the width of the layer below, digits as labels of inputs and $\Delta H=H-E[H]$,

$$E[z_1z_2]=\delta\,(K_{12}+\tfrac1nG^{\{1\}}_{12}),\qquad
E[H_{12}]=\delta\,(\Theta_{12}+\tfrac1nH^{\{1\}}_{12}),$$

and, up to the Kronecker deltas of the neurons, V is the connected average of four preactivations, D and
F those of two preactivations with $\Delta H$, A and B those of two $\Delta H$:

$$\begin{aligned}
E[z_1z_2z_3z_4]_c&=\tfrac1n(\delta_{12}\delta_{34}V_{(12)(34)}+\dots),\\
E[z_1z_2\Delta H_{34}]&=\tfrac1n(\delta_{12}\delta_{34}D_{1234}+\delta_{13}\delta_{24}F_{1324}
+\delta_{14}\delta_{23}F_{1423}),\\
E[\Delta H_{12}\Delta H_{34}]&=\tfrac1n(\delta_{12}\delta_{34}A_{(12)(34)}+\delta_{13}\delta_{24}B_{1324}
+\delta_{14}\delta_{23}B_{1423}).
\end{aligned}$$

Arrays store the labels in the order of the subscripts. One layer turns the tensors of the layer below
into its own: a share made by its own finite width, and what the layer below passes on.
"""

import itertools
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray, Matrix, Quadruple
from finitewidth._base.either import einsum, library
from finitewidth._base.tracing import outside_tracing
from finitewidth.architecture.activations import Activation
from finitewidth.architecture.dense import Hyperparameters
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import dense_stack
from finitewidth.expectations.four_factors.four_point import FourPoint
from finitewidth.statistics.wide.inputs import check_described
from finitewidth.statistics.wide.rules.dense import recursion


def width_ratios(net: MLP) -> list[float]:
    """Width below each affine layer over the width below that; 0 for the first two, which pass nothing on."""
    return [0.0, 0.0, *(upper / lower for lower, upper in itertools.pairwise(net.hidden))]


def expandable(net: Layer) -> MLP:
    """The network as a stack of dense layers; refuses one that has no expansion in 1/width."""
    check_described(net)
    net = dense_stack(net)
    if not net.hidden:
        raise ValueError(
            "net has no hidden layer: its outputs are exactly Gaussian and nothing is to correct."
        )
    if min(net.hidden) < 2:
        raise ValueError(
            f"net.hidden = {net.hidden} has a layer of width 1: an expansion in 1/width says nothing there; "
            "every hidden layer must have at least 2 neurons."
        )
    check_continuous(net.activation)
    return net


def check_continuous(activation: Activation) -> None:
    """Refuse an activation that jumps, whose slope has no mean square."""
    edge = jnp.array([-1e-9, 1e-9])
    with outside_tracing():
        left, right = (float(v) for v in activation.function(edge))
    if abs(right - left) > 1e-6:
        raise ValueError(
            f"activation {activation.name!r} jumps by {right - left:.3g} at zero: its tangent kernel is "
            "infinite, and nothing of order 1/width exists; use a continuous activation."
        )


class Averages(NamedTuple):
    r"""Averages over one neuron: `pair[k, l]` is $\langle\sigma^{(k)}_a\sigma^{(l)}_b\rangle$."""

    pair: Float[AnyArray, "orders orders n n"]
    four: FourPoint


class Fluctuations(NamedTuple):
    """Kernels and fluctuation tensors of one layer."""

    K: Matrix
    Theta: Matrix
    G1: Matrix
    V: Quadruple
    H1: Matrix
    D: Quadruple
    F: Quadruple
    A: Quadruple
    B: Quadruple


class Hessian(NamedTuple):
    """Average second derivatives of a function of two preactivations: by both labels, or one twice."""

    first: Matrix
    mixed: Matrix
    second: Matrix

    def __call__(self, X: Float[AnyArray, "n n *s"]) -> Float[AnyArray, "n n *s"]:
        """The sum over a, b in {1, 2} of the second derivatives times X_ab, X being symmetric."""
        diagonal = einsum("aa...->a...", X)
        extra = (..., *(None,) * (X.ndim - 2))
        return (
            self.first[extra] * diagonal[:, None] + 2 * self.mixed[extra] * X + self.second[extra] * diagonal
        )


def first_layer(gram: Matrix, layer: Hyperparameters) -> Fluctuations:
    """Exactly Gaussian preactivations and an exactly constant tangent kernel."""
    none, nothing = library(gram).zeros_like(gram), np.zeros((len(gram),) * 4)
    K, Theta = recursion(layer, gram, none)
    return Fluctuations(K, Theta, none, nothing, none, *(nothing,) * 4)


def next_layer(below: Fluctuations, averages: Averages, layer: Hyperparameters, ratio: float) -> Fluctuations:
    """One affine layer on top of the neurons below; `ratio` as in `width_ratios`."""
    M, S = averages
    C, lam, r = layer.C_W, layer.lambda_W, ratio
    _, Theta, G1, V, H1, D, F, A, B = below
    values, slopes = M[0, 0], M[1, 1]
    of_values = Hessian(M[2, 0], M[1, 1], M[0, 2])
    of_slopes = Hessian(M[3, 1], M[2, 2], M[1, 3])
    of_omega = Hessian(*(lam * v + C * Theta * s for v, s in zip(of_values, of_slopes, strict=True)))

    V_values = of_values(V)
    V_values_values = _swap(of_values(_swap(V_values)))
    V_values_omega = _swap(of_omega(_swap(V_values)))
    V_omega_omega = _swap(of_omega(_swap(of_omega(V))))
    D_values, D_omega = of_values(D), of_omega(D)

    S0000, S1100, S1111 = S[0, 0, 0, 0], S[1, 1, 0, 0], S[1, 1, 1, 1]
    Theta34 = Theta[None, None]
    Theta12 = Theta[:, :, None, None]
    cov_values = S0000 - _outer(values, values)
    cov_values_slopes = _swap(S1100) - _outer(values, slopes)
    cov_values_omega = lam * cov_values + C * Theta34 * cov_values_slopes
    cov_slopes = S1111 - _outer(slopes, slopes)
    cov_omega = (
        lam * cov_values_omega
        + C * Theta12 * (lam * _swap(cov_values_slopes) + C * Theta34 * cov_slopes)
    )  # fmt: skip

    d_values = _shift(of_values, (M[4, 0], M[3, 1], M[2, 2], M[1, 3], M[0, 4]), G1, V)
    d_slopes = _shift(of_slopes, (M[5, 1], M[4, 2], M[3, 3], M[2, 4], M[1, 5]), G1, V)

    K_above, Theta_above = recursion(layer, values, slopes * Theta)
    return Fluctuations(
        K=K_above,
        Theta=Theta_above,
        G1=r * C * d_values,
        V=C**2 * cov_values + r * C**2 / 4 * V_values_values,
        H1=r * (lam * d_values + C * (slopes * H1 + Theta * d_slopes + 0.5 * _own_hessian(of_slopes, D, F))),
        D=C * cov_values_omega + r * C * (V_values_omega / 4 + C / 2 * slopes * D_values),
        F=C**2 * einsum("cd,cdab->acbd", Theta, S1100) + r * C**2 * _passed_on_F(M[1, 1], M[0, 2], F),
        A=cov_omega
        + r
        * (
            V_omega_omega / 4
            + C / 2 * (slopes * D_omega + _swap(slopes * D_omega))
            + C**2 * _outer(slopes, slopes) * A
        ),
        B=C**2 * einsum("ab,cd,abcd->acbd", Theta, Theta, S1111) + r * C**2 * _outer(slopes, slopes) * B,
    )


def _outer(left: Matrix, right: Matrix) -> Quadruple:
    return left[:, :, None, None] * right


def _swap(X: Quadruple) -> Quadruple:
    """X_3412."""
    return X.transpose(2, 3, 0, 1)


def _shift(hessian: Hessian, fourth: tuple[Matrix, ...], G1: Matrix, V: Quadruple) -> Matrix:
    """Change of the average of f_12 when K moves by G1 and four preactivations are connected by V."""
    V1111, V1112 = einsum("aaaa->a", V)[:, None], einsum("aaab->ab", V)
    V1122, V1212 = einsum("aabb->ab", V), einsum("abab->ab", V)
    quartic = (
        fourth[0] * V1111
        + 4 * fourth[1] * V1112
        + fourth[2] * (2 * V1122 + 4 * V1212)
        + 4 * fourth[3] * V1112.T
        + fourth[4] * V1111.T
    )
    return hessian(G1) / 2 + quartic / 8


def _own_hessian(hessian: Hessian, D: Quadruple, F: Quadruple) -> Matrix:
    """The sum over a, b in {1, 2} of second derivatives times D_ab12 + F_a1b2 + F_a2b1."""
    first = sum(einsum(s, X) for s, X in (("aaab->ab", D), ("aaab->ab", F), ("abaa->ab", F)))
    mixed = sum(einsum(s, X) for s, X in (("abab->ab", D), ("aabb->ab", F), ("abba->ab", F)))
    second = sum(einsum(s, X) for s, X in (("bbab->ab", D), ("babb->ab", F), ("bbba->ab", F)))
    return hessian.first * first + 2 * hessian.mixed * mixed + hessian.second * second


def _passed_on_F(by_first: Matrix, by_second: Matrix, F: Quadruple) -> Quadruple:
    """The sum over a in {1, 3}, b in {2, 4} of first derivatives times F_a3b4."""

    def one_pair(X: Quadruple) -> Quadruple:
        same = einsum("aa...->a...", X)
        return by_first[:, :, None, None] * X + by_second[:, :, None, None] * same

    return _swap(one_pair(_swap(one_pair(F))))
