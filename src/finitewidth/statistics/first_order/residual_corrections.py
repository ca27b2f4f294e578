r"""First order in 1/width of residual networks at initialisation.

Given all averages over neurons, neurons are independent Gaussian trajectories (`trajectories`), and the
averages respond linearly. What one neuron does at layer $\ell$ moves the kernels of the outputs by
$\delta K^\ell_{12}$ and $\delta\Theta^\ell_{12}$, the same sums of products of $\sigma$ and $\sigma'$ as in a
stack of dense layers (`source_edges`), passed on by $\alpha^2+\beta^2(\dots)$ at every block. The neuron is
at all layers at once, so the tensors are sums over pairs of layers:

$$V_{(12)(34)}=\sum_{\ell m}\mathrm{Cov}(\delta K^\ell_{12},\delta K^m_{34}),\quad
D_{1234}=\sum_{\ell m}\mathrm{Cov}(\delta K^\ell_{12},\delta\Theta^m_{34}),\quad
A_{(12)(34)}=\sum_{\ell m}\mathrm{Cov}(\delta\Theta^\ell_{12},\delta\Theta^m_{34}),$$

$$F_{1324}=\sum_{\ell m}\langle\Lambda^\ell_{13}\Lambda^m_{24}\rangle\,\Theta^{\ell m}_{34},\qquad
B_{1324}=\sum_{\ell m}\langle b^\ell_{13}\sigma'^\ell_1\sigma'^\ell_3\,
b^m_{24}\sigma'^m_2\sigma'^m_4\rangle\,\Theta^{\ell m}_{12}\Theta^{\ell m}_{34},$$

where $\Theta^{\ell m}=\alpha_{m\ell}\Theta^m$ is the tangent kernel between two layers of a neuron,
$m\le\ell$. See "Residual networks" in the chapter on finite width at initialisation.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from finitewidth._base.arrays import Matrix, Quadruple
from finitewidth.architecture.dense import Hyperparameters
from finitewidth.architecture.residual_stack import ResidualBlock, ResidualStack
from finitewidth.statistics.first_order.source_edges import KernelEdges, LambdaEdges, Passing, TangentEdges
from finitewidth.statistics.first_order.trajectories import (
    LayerPairs,
    StreamLayer,
    layer_pairs,
    memories,
    stream_layers,
)
from finitewidth.statistics.wide.rules.dense import recursion

# Averages of four factors, one for every pair of layers and quadruple of inputs.
MOST_AVERAGES = 4_000_000

Matrices = Float[np.ndarray, "_ n n"]
PairTensors = Float[np.ndarray, "pairs n n n n"]


class ResidualCorrections(eqx.Module):
    r"""Kernels of the output layer and tensors that multiply 1/width, of a residual network.

    Attributes
    ----------
    K, Theta
        NNGP kernel and NTK.
    V, D, F, A, B
        As in `Corrections`, with the same order of labels.
    width
        Of every hidden layer.
    """

    K: Float[Array, "n n"]
    Theta: Float[Array, "n n"]
    V: Float[Array, "n n n n"]
    D: Float[Array, "n n n n"]
    F: Float[Array, "n n n n"]
    A: Float[Array, "n n n n"]
    B: Float[Array, "n n n n"]
    width: int = eqx.field(static=True)

    @property
    def ntk_variance(self) -> Float[Array, "n n"]:
        r"""Variance of the NTK of one output between networks of this width.

        $(A_{(12)(12)}+B_{1122}+B_{1221})/n$ for inputs 1 and 2.
        """
        total = jnp.einsum("abab->ab", self.A) + jnp.einsum("aabb->ab", self.B)
        return (total + jnp.einsum("abba->ab", self.B)) / self.width


class _Edges(NamedTuple):
    """What carries the factors of a neuron at each layer to the outputs; the first axis is the layer."""

    kernel: TangentEdges
    tangent: TangentEdges
    Lambda: LambdaEdges
    slopes: Any

    @classmethod
    def above(cls, layer: StreamLayer, dense: Hyperparameters) -> "_Edges":
        """Of the neurons of one layer to the affine layer above them."""
        C, lW = (np.full((1, *layer.K.shape), value) for value in (dense.C_W, dense.lambda_W))
        zero = np.zeros_like(C)
        tangent = TangentEdges(lW, C * layer.Theta, zero)
        return cls(TangentEdges(C, zero, zero), tangent, LambdaEdges(C, zero), C)

    def passed_on(self, layer: StreamLayer, dense: Hyperparameters) -> "_Edges":
        """Through the neurons of a layer and the affine layer above them."""
        M, C, lW = layer.averages.pair, dense.C_W, dense.lambda_W
        by = Passing(
            C * M[1, 1],
            lW * M[1, 1] + C * layer.Theta * M[2, 2],
            lW * M[2, 0] + C * layer.Theta * M[3, 1],
            C * M[2, 0],
        )
        kernel = KernelEdges(self.kernel.E, self.kernel.A)
        passed = kernel.passed_on(by)
        return _Edges(
            TangentEdges(passed.E, self.kernel.P, passed.A),
            self.tangent.passed_on(by, kernel),
            self.Lambda.passed_on(by),
            by.m * self.slopes,
        )

    def of(self, layers: Int[np.ndarray, " pairs"]) -> "_Edges":
        """Those of some layers."""
        return jax.tree.map(lambda edge: edge[layers], self)


def residual_corrections(net: ResidualStack, gram: Matrix, tolerance: float) -> ResidualCorrections:
    """The tensors for inputs whose mean products are `gram`."""
    n, M = len(gram), len(net.blocks) + 1
    if n > 1 and M**2 * n**4 > MOST_AVERAGES:
        most = max(int((MOST_AVERAGES / M**2) ** 0.25), 1)
        raise ValueError(
            f"x has {n} points; with {M - 1} blocks the tensors of a residual network are limited to {most}."
        )
    layers = stream_layers(net, gram, tolerance)
    edges, kept = _edges(net, layers), memories(net)
    V, D, F, A, B = (np.zeros((n,) * 4) for _ in range(5))
    for pairs in layer_pairs(net, layers, tolerance):
        later, earlier = (edges.of(index) for index in (pairs.later, pairs.earlier))
        memory = kept[pairs.later, pairs.earlier][:, None, None]
        Theta = memory * np.stack([layers[m].Theta for m in pairs.earlier])
        connected = _connected(pairs, layers)
        lambdas = _swap(_of_lambda(earlier.Lambda, _swap(_of_lambda(later.Lambda, pairs.products))))
        slopes = later.slopes[..., None, None] * earlier.slopes[:, None, None] * pairs.slopes
        # A pair of two layers stands for both orders.
        twice = (pairs.later > pairs.earlier)[:, None, None, None, None]

        def summed(first: PairTensors, second: PairTensors, twice=twice) -> Quadruple:
            return np.sum(first + twice * _swap(second), axis=0)

        signals = _covariance(later.kernel, earlier.kernel, connected)
        tangents = _covariance(later.tangent, earlier.tangent, connected)
        fields = lambdas * Theta[:, None, :, None, :]
        outputs = slopes * Theta[:, :, None, :, None] * Theta[:, None, :, None, :]
        V += summed(signals, signals)
        D += summed(
            _covariance(later.kernel, earlier.tangent, connected),
            _covariance(later.tangent, earlier.kernel, connected),
        )
        F += summed(fields, fields)
        A += summed(tangents, tangents)
        B += summed(outputs, outputs)
    top = layers[-1]
    pair = top.averages.pair
    K, Theta = recursion(net.last, pair[0, 0], pair[1, 1] * top.Theta)
    return ResidualCorrections(*map(jnp.asarray, (K, Theta, V, D, F, A, B)), width=net.width)


def _edges(net: ResidualStack, layers: list[StreamLayer]) -> _Edges:
    """From every hidden layer to the outputs, the first axis being the layer."""
    found = jax.tree.map(lambda edge: edge[:0], _Edges.above(layers[0], net.last))
    for layer, block in zip(layers, (*net.blocks, ResidualBlock(0.0, 1.0, net.last)), strict=True):

        def above(stream: Matrices, passed: Matrices, own: Matrices, block=block) -> Matrices:
            moved = block.alpha**2 * stream + block.beta**2 * passed
            return np.concatenate([moved, block.beta**2 * own])

        by = (layer, block.dense)
        found = jax.tree.map(above, found, found.passed_on(*by), _Edges.above(*by))
    return found


def _connected(pairs: LayerPairs, layers: list[StreamLayer]) -> LayerPairs:
    """Without the products of the means."""
    means = {
        (order, name): np.stack([layers[l].averages.pair[order, order] for l in index])
        for order in (0, 1)
        for name, index in (("later", pairs.later), ("earlier", pairs.earlier))
    }
    outer = lambda k, l: means[k, "later"][..., None, None] * means[l, "earlier"][:, None, None]
    return pairs._replace(
        values=pairs.values - outer(0, 0),
        slopes=pairs.slopes - outer(1, 1),
        slopes_values=pairs.slopes_values - outer(1, 0),
        values_slopes=pairs.values_slopes - outer(0, 1),
    )


def _covariance(later: TangentEdges, earlier: TangentEdges, pairs: LayerPairs) -> PairTensors:
    """Of what a neuron does to a kernel at the later, and to another one at the earlier layer."""
    on_values = _folded(later, pairs.values, pairs.slopes_values)
    on_slopes = _folded(later, pairs.values_slopes, pairs.slopes)
    return _swap(_folded(earlier, _swap(on_values), _swap(on_slopes)))


def _folded(edges: TangentEdges, values: PairTensors, slopes: PairTensors) -> PairTensors:
    """s1 s2 E + s'1 s'2 P + s1^2 A + s2^2 A^T in the first two labels."""
    E, P, A = (edge[..., None, None] for edge in edges)
    squares = np.einsum("paacd->pacd", values)
    return E * values + P * slopes + A * squares[:, :, None] + A.swapaxes(1, 2) * squares[:, None]


def _of_lambda(edges: LambdaEdges, products: PairTensors) -> PairTensors:
    """s1 s'3 E + (s s')3 A in the first two labels."""
    E, A = (edge[..., None, None] for edge in edges)
    return E * products + A * np.einsum("paacd->pacd", products)[:, None]


def _swap(X: PairTensors) -> PairTensors:
    """X_3412."""
    return X.transpose(0, 3, 4, 1, 2)
