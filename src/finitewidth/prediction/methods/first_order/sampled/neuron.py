r"""A sampled neuron of a hidden layer, and products with the edges that carry what it does to the outputs.

Every contraction of the tensors with the data is a tree of matrix-vector products once the neuron's
preactivations z at all points are drawn: rows of arrays are samples, and a product with a kernel or an edge
is one matrix product for all of them. Edges that would close a cycle are replaced by random rank-one
matrices of the right mean: $b\to\zeta\zeta^T$, $\zeta=\sum_k\pm\sqrt{\lambda_k}v_k$.

Arrays have shape (samples, outputs, points); quantities that do not depend on the output have one there.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, UInt8

from finitewidth._base.derivatives import value_and_derivatives
from finitewidth.expectations.four_factors.derivative_moments import is_smooth
from finitewidth.statistics.first_order.hidden_layers import HiddenLayer, LayerKernels
from finitewidth.statistics.first_order.source_edges import Edges, LambdaEdges, Matrix, PhiEdges, source_edges

_NEGLIGIBLE = 1e-6

# (samples, outputs, points or modes); an axis of length one stands for all of its kind.
Rows = Float[Array, "_ _ _"]


class Factors(eqx.Module):
    """A matrix as `left @ right.T`."""

    left: Float[Array, "p rank"]
    right: Float[Array, "p rank"]

    @property
    def rank(self) -> int:
        """Number of signs of one probe."""
        return self.left.shape[1]

    def probe(self, signs: Rows) -> tuple[Rows, Rows]:
        """Vectors whose outer product is the matrix on average over the signs."""
        return signs @ self.left.T, signs @ self.right.T


def factored(matrices: list[Matrix], dtype, *, symmetric: bool = False) -> list[Factors]:
    """Singular vectors times roots of singular values; negligible ones, in all matrices, are left out.

    A positive semi-definite matrix has equal sides. Matrices of different layers have factors of one shape,
    so that they share compiled programs.
    """
    parts = []
    for matrix in matrices:
        if symmetric:
            values, vectors = np.linalg.eigh(np.asarray(matrix))
            values, u = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
            parts.append((u, values, u))
        else:
            u, values, vT = np.linalg.svd(np.asarray(matrix))
            parts.append((u, values, vT.T))
    rank = max(1, *(int(np.sum(s > _NEGLIGIBLE * s[0])) for _, s, _ in parts))
    side = lambda u, s: jnp.asarray(u[:, :rank] * np.sqrt(s[:rank]), dtype)
    return [Factors(side(u, s), side(v, s)) for u, s, v in parts]


class ByParts(eqx.Module):
    r"""What stands for $\sigma'''$ where the curvature jumps: its point mass is missed by every sample.

    By parts, with $\langle z_0F\rangle=\sum_bK_{0b}\langle\partial_bF\rangle$ for Gaussian z,

    $$\langle\sigma'''_0\,\sigma'_1\sigma'_2\sigma'_3\rangle=
      \frac1{K_{00}}\langle z_0\sigma''_0\,\sigma'_1\sigma'_2\sigma'_3\rangle
      -\sum_{i=1}^3\frac{K_{0i}}{K_{00}}\langle\sigma''_0\,\sigma''_i\cdots\rangle ,$$

    where the dots are the two other slopes. `Pi` and `Theta` are the edges of the label i, times
    $K_{0i}/K_{00}$, and `variance` is $K_{00}$.
    """

    variance: Float[Array, " p"]
    Pi: Float[Array, "p p"]
    Theta: Float[Array, "p p"]

    @classmethod
    def of(cls, layer: HiddenLayer, edges: Edges, dtype) -> "ByParts":
        variance = np.diag(layer.K)
        share = layer.K / variance[:, None]
        return cls(*(jnp.asarray(a, dtype) for a in (variance, share * edges.Pi.b, share * layer.Theta)))


class Source(eqx.Module):
    """A hidden layer as the place where corrections begin.

    Edges that are zero at all hidden layers, those of a single one, are None; so is `by_parts` where the
    activation is smooth.
    """

    function: Callable[[Array], Array] = eqx.field(static=True)
    train: int = eqx.field(static=True)
    root: Float[Array, "p p"]
    Theta: Float[Array, "p p"]
    edges: Edges
    slopes: Factors
    Lambda: LambdaEdges
    Phi: PhiEdges
    by_parts: ByParts | None

    @property
    def signs(self) -> int:
        """The most signs that the probes of one sample need: one of every edge, and another of slopes."""
        parts = [self.slopes, self.slopes, *self.Lambda, *self.Phi]
        return sum(part.rank for part in parts if part is not None)


def layer_sources(kernels: LayerKernels, train: int, dtype: jnp.dtype | type) -> list[tuple[Source, float]]:
    """Every hidden layer as a source, and its factor: the last hidden width over its own."""
    edges = [source_edges(kernels, l) for l in range(len(kernels.hidden))]
    slopes = factored([e.slopes for e in edges], dtype, symmetric=True)
    by_layer = lambda parts: list(zip(*parts, strict=True))
    every = lambda same: factored(same, dtype) if any(m.any() for m in same) else [None] * len(same)
    Lambda = by_layer(every(list(same)) for same in by_layer(e.Lambda for e in edges))
    Phi = by_layer(every(list(same)) for same in by_layer(e.Phi for e in edges))
    zero = lambda m: None if len(edges) == 1 and not m.any() else jnp.asarray(m, dtype)
    smooth = is_smooth(kernels.function)
    sources = []
    for l, layer in enumerate(kernels.hidden):
        values, vectors = np.linalg.eigh(layer.K)
        root = jnp.asarray(vectors * np.sqrt(np.maximum(values, 0)), dtype)
        own = jax.tree.map(zero, edges[l])
        Theta = jnp.asarray(layer.Theta, dtype)
        probes = slopes[l], LambdaEdges(*Lambda[l]), PhiEdges(*Phi[l])
        by_parts = None if smooth else ByParts.of(layer, edges[l], dtype)
        source = Source(kernels.function, train, root, Theta, own, *probes, by_parts)
        sources.append((source, kernels.hidden[-1].width / layer.width))
    return sources


class Drawn(NamedTuple):
    """The activation and its derivatives at drawn preactivations, and random bits for everything else.

    The third derivative is z s''/K where it is integrated by parts.
    """

    derivatives: tuple[Rows, ...]
    bits: UInt8[Array, "rows signs"]


def drawn(source: Source, rng: np.random.Generator, rows: int, signs: int) -> Drawn:
    """Everything random about a batch of samples: NumPy draws it, so that no program has to be compiled."""
    dtype = np.dtype(source.root.dtype).type
    normal = rng.standard_normal((rows, 1, source.root.shape[1]), dtype)
    packed = np.frombuffer(rng.bytes(rows * -(-signs // 8)), np.uint8).reshape(rows, -1)
    return Drawn(_derivatives(source, jnp.asarray(normal)), jnp.asarray(np.unpackbits(packed, axis=1)))


@eqx.filter_jit
def _derivatives(source: Source, normal: Rows) -> tuple[Rows, ...]:
    z = normal @ source.root.T
    if source.by_parts is None:
        return tuple(value_and_derivatives(source.function, z, 3))
    below = value_and_derivatives(source.function, z, 2)
    return *below, z * below[2] / source.by_parts.variance


class Signs:
    """Random signs of a batch; each is handed out once."""

    def __init__(self, drawn: Drawn):
        self._bits, self._dtype, self._used = drawn.bits, drawn.derivatives[0].dtype, 0

    def __call__(self, outputs: int, size: int) -> Rows:
        """The next ones, (rows, outputs, size)."""
        begin, self._used = self._used, self._used + outputs * size
        if self._used > self._bits.shape[1]:
            raise ValueError(f"a sample needs {self._used} signs, and {self._bits.shape[1]} were drawn.")
        own = self._bits[:, begin : self._used].astype(self._dtype)
        return (1 - 2 * own).reshape(-1, outputs, size)


# One neuron's factor at the first label, an edge, and the factor at the second label.
Term = tuple[Rows, Matrix | None, Rows]


class Neuron(eqx.Module):
    """Derivatives of the activation at sampled preactivations, and products with the edges.

    `s3` is the third derivative, or what is left of it by parts.
    """

    at: Source
    s0: Rows
    s1: Rows
    s2: Rows
    s3: Rows

    @property
    def one(self) -> Rows:
        """The factor of a label at which the neuron has none."""
        return jnp.ones((1, 1, 1), self.s0.dtype)

    def cut(self, v: Rows) -> Rows:
        """The training points of something known at all points."""
        return v[..., : self.at.train]

    def onto(self, terms: Iterable[Term], v: Rows) -> Rows:
        """Sum over a training label in second place: to all points."""
        train = self.at.train
        parts = [
            first * ((self.cut(second) * v) @ edge[:, :train].T)
            for first, edge, second in terms
            if edge is not None
        ]
        return sum(parts, start=jnp.zeros(()))

    def back(self, terms: Iterable[Term], v: Rows) -> Rows:
        """Sum over a training label in first place: to all points."""
        train = self.at.train
        parts = [
            second * ((self.cut(first) * v) @ edge[:train])
            for first, edge, second in terms
            if edge is not None
        ]
        return sum(parts, start=jnp.zeros(()))

    def theta(self, v: Rows) -> Rows:
        return v @ self.at.Theta[:, : self.at.train].T

    def between(self, first: Rows, second: Rows, v: Rows) -> Rows:
        """Theta between two factors that are known at all points."""
        return first * self.theta(self.cut(second) * v)

    def dtheta(self, v: Rows) -> Rows:
        """Fluctuation of the NTK, centred."""
        E, P, A = self.at.edges.tangent
        pairs: list[Term] = [(self.s0, E, self.s0), (self.s1, P, self.s1)]
        return self._centred(pairs, A, self.at.edges.tangent_mean, v)

    def dkernel(self, v: Rows) -> Rows:
        """Fluctuation of the initial outputs' kernel, centred."""
        E, A = self.at.edges.kernel
        return self._centred([(self.s0, E, self.s0)], A, self.at.edges.kernel_mean, v)

    def _centred(self, pairs: list[Term], A: Matrix | None, mean: Matrix, v: Rows) -> Rows:
        own: Term = (self.s0**2, A, self.one)
        value = self.onto([*pairs, own, (-self.one, mean, self.one)], v)
        return value if A is None else value + self.back([own], v)

    @property
    def psi(self) -> list[Term]:
        a, b, c = self.at.edges.Psi
        return [(self.s1, a, self.s0), (self.s2, b, self.s1), (self.s0 * self.s1, c, self.one)]

    @property
    def pi(self) -> list[Term]:
        a, b, c, d = self.at.edges.Pi
        pairs: list[Term] = [(self.s2, a, self.s0), (self.s3, b, self.s1)]
        if self.at.by_parts is not None:
            pairs.append((-self.s2, self.at.by_parts.Pi, self.s2))
        return [*pairs, (self.s1**2, c, self.one), (self.s2 * self.s0, d, self.one)]

    @property
    def third(self) -> list[Term]:
        """The part of Pi with a third derivative, as by parts it meets a slope behind Theta."""
        return [(-self.s2, self.at.edges.Pi.b, self.s1)]

    @property
    def sigma(self) -> list[Term]:
        a, b = self.at.edges.Sigma
        return [(self.s1, a, self.s1), (self.s2, b, self.s2)]

    @property
    def lambda_(self) -> list[Term]:
        E, A = self.at.edges.Lambda
        return [(self.s0, E, self.s1), (self.one, A, self.s0 * self.s1)]

    def slope_probes(self, signs: Signs) -> tuple[Rows, Rows]:
        """Two independent zeta, the mean of whose outer square is b."""
        b = self.at.slopes
        one, two = (signs(1, b.rank) @ b.left.T for _ in range(2))
        return one, two

    def phi_probe(self, signs: Signs) -> tuple[Rows, Rows]:
        """Phi(D, e) as one product f(D) w(e) on average."""
        a, b, c = self.at.Phi
        parts = [(a, self.s2, self.s0), (b, self.s2 * self.s0, self.one), (c, self.s1**2, self.one)]
        return self._probe(signs, parts)

    def lambda_probe(self, signs: Signs) -> tuple[Rows, Rows]:
        """L(e, b) as one product w(e) c(b) on average."""
        E, A = self.at.Lambda
        return self._probe(signs, [(E, self.s0, self.s1), (A, self.one, self.s0 * self.s1)])

    def _probe(self, signs: Signs, parts: list) -> tuple[Rows, Rows]:
        """Independent probes of several edges add up: their cross terms vanish on average."""
        first = second = jnp.zeros_like(self.s0)
        for factors, left, right in parts:
            if factors is not None:
                u, v = factors.probe(signs(1, factors.rank))
                first, second = first + left * u, second + right * v
        return first, second
