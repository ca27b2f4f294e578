r"""How the layers above pass on what one neuron of a hidden layer does.

A correction of order 1/n begins at a hidden layer, as an average over a single neuron z of that layer of
products $\sigma_1,\sigma'_1,\dots$ at the points, and entries of that layer's $\Theta$. The layers above
multiply pairs of labels by averages of their own neurons, so they act on matrices over pairs of points,
the *edges*. With the edges of one hidden layer the output tensors are averages over its neuron:

$$A_{(12)(34)}=\langle\delta\Theta_{12}\,\delta\Theta_{34}\rangle,\quad
D_{(12)(34)}=\langle\delta K_{12}\,\delta\Theta_{34}\rangle,\quad
B_{1324}=\langle\sigma'_1\sigma'_3b_{13}\,\sigma'_2\sigma'_4b_{24}\rangle\Theta_{12}\Theta_{34},\quad
Q_{0123}=\langle\Psi_{01}\Lambda_{32}\rangle\Theta_{02},\dots$$
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth.statistics.first_order.hidden_layers import HiddenLayer, LayerKernels

Matrix = Float[AnyArray, "p p"]


class Passing(NamedTuple):
    r"""What one layer multiplies pairs of labels by: of values, of slopes, and of a moved variance.

    `m` is $C_W M_{11}$, `chi` and `rho` do the same to a kernel that is learnt from, and `bend` is
    $C_WM_{20}$.
    """

    m: Matrix
    chi: Matrix
    rho: Matrix
    bend: Matrix

    @classmethod
    def of(cls, layer: HiddenLayer) -> "Passing":
        C, lW, M = layer.above.C_W, layer.above.lambda_W, layer.averages.pair
        chi = lW * M(1, 1) + C * layer.Theta * M(2, 2)
        return cls(C * M(1, 1), chi, lW * M(2, 0) + C * layer.Theta * M(3, 1), C * M(2, 0))


def _own(edge: Float[AnyArray, "*sources p p"]) -> Float[AnyArray, "*sources p 1"]:
    """Entries of two equal labels, for the first label."""
    return edge.diagonal(axis1=-2, axis2=-1)[..., None]


class KernelEdges(NamedTuple):
    """dK(1,2) = s1 s2 E + s1^2 A + s2^2 A^T, minus its mean."""

    E: Any
    A: Any

    def passed_on(self, by: Passing) -> "KernelEdges":
        return KernelEdges(by.m * self.E, by.m * self.A + by.bend / 2 * _own(self.E + 2 * self.A))


class TangentEdges(NamedTuple):
    """dTheta(1,2) = s1 s2 E + s'1 s'2 P + s1^2 A + s2^2 A^T, minus its mean."""

    E: Any
    P: Any
    A: Any

    def passed_on(self, by: Passing, kernel: KernelEdges) -> "TangentEdges":
        moved = _own(kernel.E + 2 * kernel.A)
        return TangentEdges(
            by.m * self.E + by.chi * kernel.E,
            by.m * self.P,
            by.m * self.A + by.chi * kernel.A + by.rho / 2 * moved,
        )


class LambdaEdges(NamedTuple):
    """L(1,3) = s1 s'3 E + (s s')3 A."""

    E: Any
    A: Any

    def passed_on(self, by: Passing) -> "LambdaEdges":
        return LambdaEdges(by.m * self.E, by.m * self.A + (by.bend * _own(self.E + self.A)).mT)


class PsiEdges(NamedTuple):
    """Psi(0,1) = s'0 s1 a + s''0 s'1 b + (s s')0 c."""

    a: Any
    b: Any
    c: Any

    def passed_on(self, by: Passing, Lambda: LambdaEdges) -> "PsiEdges":
        E, A = Lambda
        return PsiEdges(
            by.m * self.a + by.chi * E.T,
            by.m * self.b,
            by.m * self.c + by.chi * A.T + by.rho * _own(E + A),
        )


class PhiEdges(NamedTuple):
    """Phi(0,3) = s''0 s3 a + (s'' s)0 b + (s' s')0 c; b is also the name of the edge of two slopes."""

    a: Any
    b: Any
    c: Any

    def passed_on(self, by: Passing, slopes: Matrix) -> "PhiEdges":
        return PhiEdges(
            by.m * self.a,
            by.m * self.b + by.bend * _own(self.a + self.b),
            by.m * self.c + by.bend * _own(self.c + slopes),
        )


class PiEdges(NamedTuple):
    """Pi(0,1) = s''0 s1 a + s'''0 s'1 b + (s' s')0 c + (s'' s)0 d."""

    a: Any
    b: Any
    c: Any
    d: Any

    def passed_on(self, by: Passing, Phi: PhiEdges, slopes: Matrix) -> "PiEdges":
        return PiEdges(
            by.m * self.a + by.chi * Phi.a,
            by.m * self.b,
            by.m * self.c + by.chi * Phi.c + by.rho * _own(Phi.c + slopes),
            by.m * self.d + by.chi * Phi.b + by.rho * _own(Phi.a + Phi.b),
        )


class SigmaEdges(NamedTuple):
    """Sigma(1,2) = s'1 s'2 a + s''1 s''2 b."""

    a: Any
    b: Any

    def passed_on(self, by: Passing, slopes: Matrix) -> "SigmaEdges":
        return SigmaEdges(by.m * self.a + by.chi * slopes, by.m * self.b)


class Edges(NamedTuple):
    """Matrices that carry the factors of one neuron to the outputs.

    `slopes` is the matrix b of the theory, and the means are those of the sampled dK and dTheta.
    """

    kernel: KernelEdges
    tangent: TangentEdges
    Lambda: LambdaEdges
    Psi: PsiEdges
    slopes: Matrix
    Phi: PhiEdges
    Pi: PiEdges
    Sigma: SigmaEdges
    kernel_mean: Matrix
    tangent_mean: Matrix

    def passed_on(self, layer: HiddenLayer) -> "Edges":
        """One layer further up."""
        by = Passing.of(layer)
        return Edges(
            self.kernel.passed_on(by),
            self.tangent.passed_on(by, self.kernel),
            self.Lambda.passed_on(by),
            self.Psi.passed_on(by, self.Lambda),
            by.m * self.slopes,
            self.Phi.passed_on(by, self.slopes),
            self.Pi.passed_on(by, self.Phi, self.slopes),
            self.Sigma.passed_on(by, self.slopes),
            self.kernel_mean,
            self.tangent_mean,
        )


def source_edges(kernels: LayerKernels, layer: int) -> Edges:
    """Edges from hidden layer `layer` (from 0) to the outputs."""
    source = kernels.hidden[layer]
    C, lW = (np.full_like(source.K, value) for value in (source.above.C_W, source.above.lambda_W))
    zero, carried = np.zeros_like(source.K), C * source.Theta
    edges = Edges(
        KernelEdges(C, zero),
        TangentEdges(lW, carried, zero),
        LambdaEdges(C, zero),
        PsiEdges(lW, carried, zero),
        C,
        PhiEdges(C, zero, zero),
        PiEdges(lW, carried, zero, zero),
        SigmaEdges(lW, carried),
        zero,
        zero,
    )
    for later in kernels.hidden[layer + 1 :]:
        edges = edges.passed_on(later)
    average, (K, Theta) = source.averages, edges[:2]
    one_point = average((0, 0), ())

    def mean(E: Matrix, A: Matrix) -> Matrix:
        return E * average.pair(0, 0) + A * one_point + (A * one_point).T

    return edges._replace(
        kernel_mean=mean(K.E, K.A), tangent_mean=mean(Theta.E, Theta.A) + Theta.P * average.pair(1, 1)
    )
