r"""What one sampled neuron of a hidden layer contributes to the trained outputs.

Every contraction of the tensors with the data is a tree of matrix-vector products once the neuron's
preactivations z at all points are drawn: rows of arrays are samples, and a product with a kernel or an edge
is one matrix product for all of them. Edges that would close a cycle are replaced by random rank-one
matrices of the right mean: $b\to\zeta\zeta^T$, $\zeta=\sum_k\pm\sqrt{\lambda_k}v_k$.

Arrays have shape (samples, outputs, points); quantities that do not depend on the output have one there.
With several outputs, two residuals whose outputs are summed over become one by random signs.
"""

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.derivatives import value_and_derivatives
from finitewidth.statistics.hidden_layers import HiddenLayer
from finitewidth.statistics.source_edges import Edges, Matrix

_RANK_STEPS = (1, 32, 64, 128, 256, 512, 1024)
_NEGLIGIBLE = 1e-6

# (samples, outputs, points or modes); an axis of length one stands for all of its kind.
Rows = Float[Array, "_ _ _"]


class Factors(eqx.Module):
    """A matrix as `left @ right.T`."""

    left: Float[Array, "p rank"]
    right: Float[Array, "p rank"]

    @classmethod
    def of(cls, matrix: Matrix, dtype) -> "Factors":
        """Singular vectors times roots of singular values, negligible ones left out."""
        u, s, v = np.linalg.svd(np.asarray(matrix))
        keep = _rank(s)
        root = np.sqrt(s[:keep])
        return cls(jnp.asarray(u[:, :keep] * root, dtype), jnp.asarray(v[:keep].T * root, dtype))

    @classmethod
    def of_positive(cls, matrix: Matrix, dtype) -> "Factors":
        """The same for a positive semi-definite matrix, with equal sides."""
        values, vectors = np.linalg.eigh(np.asarray(matrix))
        values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
        keep = _rank(values)
        side = jnp.asarray(vectors[:, :keep] * np.sqrt(values[:keep]), dtype)
        return cls(side, side)

    def probe(self, key: PRNGKeyArray, rows: int) -> tuple[Rows, Rows]:
        """Vectors whose outer product is the matrix on average."""
        return self.sides(jax.random.rademacher(key, (rows, 1, self.left.shape[1]), self.left.dtype))

    def two_probes(self, key: PRNGKeyArray, rows: int) -> tuple[Rows, Rows]:
        """First sides of two independent probes."""
        signs = jax.random.rademacher(key, (2, rows, 1, self.left.shape[1]), self.left.dtype)
        return signs[0] @ self.left.T, signs[1] @ self.left.T

    def sides(self, signs: Rows) -> tuple[Rows, Rows]:
        """The probe that belongs to given signs."""
        return signs @ self.left.T, signs @ self.right.T


def _rank(values: Float[np.ndarray, " p"]) -> int:
    """Number of values that matter, rounded up so that different layers share compiled programs."""
    rank = int(np.sum(values > _NEGLIGIBLE * values[0]))
    return min([r for r in _RANK_STEPS if rank <= r < len(values)] or [len(values)])


class Source(eqx.Module):
    """A hidden layer as the place where corrections begin; `top` if the outputs are right above it."""

    function: Callable[[Array], Array] = eqx.field(static=True)
    train: int = eqx.field(static=True)
    top: bool = eqx.field(static=True)
    root: Float[Array, "p p"]
    Theta: Float[Array, "p p"]
    edges: Edges
    b: Factors
    E: Factors
    Ea: Factors
    Fa: Factors
    Fb: Factors
    Fc: Factors

    @classmethod
    def of(cls, function, train: int, layer: HiddenLayer, edges: Edges, top: bool, dtype) -> "Source":
        values, vectors = np.linalg.eigh(layer.K)
        root = vectors * np.sqrt(np.maximum(values, 0))
        array = lambda a: jnp.asarray(a, dtype)
        factors = {name: Factors.of(getattr(edges, name), dtype) for name in ("E", "Ea", "Fa", "Fb", "Fc")}
        return cls(
            function, train, top, array(root), array(layer.Theta), Edges(*(array(e) for e in edges)),
            Factors.of_positive(np.asarray(edges.b), dtype), **factors,
        )  # fmt: skip

    def neuron(self, key: PRNGKeyArray, rows: int) -> "Neuron":
        """Draw preactivations at all points."""
        normal = jax.random.normal(key, (rows, 1, self.root.shape[1]), self.root.dtype)
        return Neuron(self, *value_and_derivatives(self.function, normal @ self.root.T, 3))


class Neuron(eqx.Module):
    """Derivatives of the activation at sampled preactivations, and products with the edges."""

    at: Source
    s0: Rows
    s1: Rows
    s2: Rows
    s3: Rows

    def onto(self, matrix: Matrix, v: Rows) -> Rows:
        """Sum over a training label in second place: to all points."""
        return self.cut(v) @ matrix[:, : self.at.train].T

    def back(self, matrix: Matrix, v: Rows) -> Rows:
        """Sum over a training label in first place: to all points."""
        return self.cut(v) @ matrix[: self.at.train]

    def cut(self, v: Rows) -> Rows:
        """The training points of something known at all points."""
        return v[..., : self.at.train]

    def times(self, factor: Rows, v: Rows) -> Rows:
        """A factor known at all points times something on the training points."""
        return self.cut(factor) * v

    def theta(self, v: Rows) -> Rows:
        return self.onto(self.at.Theta, v)

    def dtheta(self, v: Rows) -> Rows:
        """Fluctuation of the kernel, centred."""
        e, s0, s1 = self.at.edges, self.s0, self.s1
        value = s0 * self.onto(e.TE, self.times(s0, v)) + s1 * self.onto(e.TP, self.times(s1, v))
        if not self.at.top:
            value = value + s0**2 * self.onto(e.TA, v) + self.back(e.TA, self.times(s0**2, v))
        return value - self.onto(e.mean, v)

    def psi(self, v: Rows) -> Rows:
        e, s0, s1, s2 = self.at.edges, self.s0, self.s1, self.s2
        value = s1 * self.onto(e.Pa, self.times(s0, v)) + s2 * self.onto(e.Pb, self.times(s1, v))
        return value if self.at.top else value + s0 * s1 * self.onto(e.Pc, v)

    def psi_back(self, v: Rows) -> Rows:
        e, s0, s1, s2 = self.at.edges, self.s0, self.s1, self.s2
        value = s0 * self.back(e.Pa, self.times(s1, v)) + s1 * self.back(e.Pb, self.times(s2, v))
        return value if self.at.top else value + self.back(e.Pc, self.times(s0 * s1, v))

    def pi(self, v: Rows) -> Rows:
        e, s0, s1, s2, s3 = self.at.edges, self.s0, self.s1, self.s2, self.s3
        value = s2 * self.onto(e.Ra, self.times(s0, v)) + s3 * self.onto(e.Rb, self.times(s1, v))
        if self.at.top:
            return value
        return value + s1**2 * self.onto(e.Rc, v) + s2 * s0 * self.onto(e.Rd, v)

    def pi_back(self, v: Rows) -> Rows:
        e, s0, s1, s2, s3 = self.at.edges, self.s0, self.s1, self.s2, self.s3
        value = s0 * self.back(e.Ra, self.times(s2, v)) + s1 * self.back(e.Rb, self.times(s3, v))
        if self.at.top:
            return value
        return value + self.back(e.Rc, self.times(s1**2, v)) + self.back(e.Rd, self.times(s2 * s0, v))

    def sigma(self, v: Rows) -> Rows:
        e, s1, s2 = self.at.edges, self.s1, self.s2
        return s1 * self.onto(e.Sa, self.times(s1, v)) + s2 * self.onto(e.Sb, self.times(s2, v))

    def phi_probe(self, key: PRNGKeyArray) -> tuple[Rows, Rows]:
        """Phi(D, e) as one product f(D) w(e) on average."""
        parts = [(self.at.Fa, self.s2, self.s0)]
        if not self.at.top:
            one = jnp.ones_like(self.s0)
            parts += [(self.at.Fb, self.s2 * self.s0, one), (self.at.Fc, self.s1**2, one)]
        return self._mixed(key, parts)

    def lambda_probe(self, key: PRNGKeyArray) -> tuple[Rows, Rows]:
        """L(e, b) as one product w(e) c(b) on average."""
        parts = [(self.at.E, self.s0, self.s1)]
        if not self.at.top:
            parts += [(self.at.Ea, jnp.ones_like(self.s0), self.s0 * self.s1)]
        return self._mixed(key, parts)

    def dntk_probes(self, key: PRNGKeyArray) -> tuple[tuple[Rows, Rows], tuple[Rows, Rows], Rows]:
        """What the dNTK is made of: Phi and L as products, and s' times a probe of b."""
        phi_key, lambda_key, b_key = jax.random.split(key, 3)
        bent = self.s1 * self.at.b.probe(b_key, self.s0.shape[0])[0]
        return self.phi_probe(phi_key), self.lambda_probe(lambda_key), bent

    def _mixed(self, key: PRNGKeyArray, parts: list) -> tuple[Rows, Rows]:
        """Independent probes of several edges add up: their cross terms vanish on average."""
        ends = np.cumsum([factors.left.shape[1] for factors, _, _ in parts])
        signs = jax.random.rademacher(key, (self.s0.shape[0], 1, int(ends[-1])), self.s0.dtype)
        first, second = jnp.zeros_like(self.s0), jnp.zeros_like(self.s0)
        for (factors, left, right), own in zip(parts, jnp.split(signs, ends[:-1], axis=-1), strict=True):
            u, v = factors.sides(own)
            first, second = first + left * u, second + right * v
        return first, second


def kernel_fluctuation_a(neuron: Neuron, between: Callable[[Rows], Rows], alpha: Rows) -> Rows:
    """Both fluctuations come from the mean square of one neuron: A."""
    return -neuron.dtheta(between(neuron.cut(neuron.dtheta(alpha))))


def kernel_fluctuation_b(
    neuron: Neuron, key: PRNGKeyArray, between: Callable[[Rows], Rows], alpha: Rows, outputs: int
) -> Rows:
    """Fluctuations whose neurons are crossed: B, in both of its arrangements."""
    rows = neuron.s0.shape[0]
    zeta, other = (probe * neuron.s1 for probe in neuron.at.b.two_probes(key, rows))
    h = lambda v: zeta * neuron.theta(neuron.times(other, v))
    h_back = lambda v: other * neuron.theta(neuron.times(zeta, v))
    return -h(between(neuron.cut(h(alpha) + outputs * h_back(alpha))))


def first_change(
    neuron: Neuron,
    key: PRNGKeyArray,
    U: Float[Array, "train k"],
    modes: tuple[Rows, Rows],
    labels: Rows,
    outputs: int,
    *,
    moved: bool,
) -> Rows:
    """The dNTK; `modes` are the time factors of its two legs, `labels` the targets in the eigenbasis.

    `moved` adds the terms in which the kernel has moved before it acts.
    """
    A, B = modes
    (f, phi_leg), (leg, c), q = neuron.dntk_probes(key)
    th = lambda v: neuron.theta(neuron.times(q, v))
    thc = lambda v: neuron.theta(neuron.times(c, v))
    AY, BY = (A * labels) @ U.T, (B * labels) @ U.T
    phi_modes, leg_modes = neuron.cut(phi_leg) @ U, neuron.cut(leg) @ U
    Ap, Bp, Al, Bl = ((w * v) @ U.T for v in (phi_modes, leg_modes) for w in (A, B))
    thBY, thBp = th(BY), th(Bp)
    cBY, cBl, psiBY, psiBl = thc(BY), thc(Bl), neuron.psi(BY), neuron.psi(Bl)
    n = outputs
    value = f * (th(Ap) * thBY + th(AY) * thBp)
    value = value + neuron.psi(Al) * cBY + n * neuron.psi(AY) * cBl
    value = value + n * thc(Al) * psiBY + thc(AY) * psiBl
    if moved:
        cut = neuron.cut
        value = value + q * neuron.theta(cut(f) * (n * Ap * cut(thBY) + AY * cut(thBp)))
        value = value + neuron.psi_back(Al * cut(cBY) + n * AY * cut(cBl))
        value = value + c * neuron.theta(Al * cut(psiBY) + AY * cut(psiBl))
    return -value


class Legs(eqx.Module):
    """One leg of the ddNTK: its residual with the free output, and with an output that is summed over."""

    own: Rows
    summed: Rows


def second_change(
    neuron: Neuron, key: PRNGKeyArray, a: Legs, b: Legs, g: Legs, *, blocks: dict[str, int]
) -> Rows:
    """The ddNTK with three residual legs; `blocks` says how often each of its six arrangements enters."""
    rows = neuron.s0.shape[0]
    zeta, other = neuron.at.b.two_probes(key, rows)
    n, cut, times = neuron, neuron.cut, neuron.times
    q = n.s1 * zeta
    th = lambda v: n.theta(times(q, v))
    one = a.own is a.summed

    def both(operation: Callable[[Rows], Rows], leg: Legs) -> Legs:
        own = operation(leg.own)
        return Legs(own, own if one else operation(leg.summed))

    tb, tg = both(th, b), both(th, g)
    value = jnp.zeros_like(n.s0)
    if blocks.get("I_D") or blocks.get("I_a"):
        pi_b, pi_g = both(n.pi, b), both(n.pi, g)
        if blocks.get("I_D"):
            ta = th(a.summed)
            value = value + n.pi(a.own) * tb.summed * tg.summed
            value = value + ta * (pi_b.own * tg.summed + pi_g.own * tb.summed)
        if blocks.get("I_a"):
            value = value + n.pi_back(a.own * cut(tb.summed * tg.summed))
            value = value + q * n.theta(a.summed * cut(pi_g.summed * tb.own + pi_b.summed * tg.own))

    def J(a: Legs, b: Legs, g: Legs, tb: Legs, tg: Legs) -> Rows:
        product = tb.summed * n.sigma(a.own * cut(tg.summed))
        product = product + n.psi(b.own) * n.theta(a.summed * cut(n.psi(g.summed)))
        bent = n.theta(times(n.s2 * other, a.summed * cut(tg.own)))
        return product + n.s2 * zeta * n.theta(times(n.s1 * other, b.summed)) * bent

    if blocks.get("J_D"):
        value = value + blocks["J_D"] * J(a, b, g, tb, tg)
    if blocks.get("J_s"):
        value = value + J(b, a, g, both(th, a), tg)
    if blocks.get("J_a"):
        value = value + J(a, g, b, tg, tb)
    if blocks.get("J_b"):
        value = value + q * n.theta(a.summed * cut(n.sigma(b.summed * cut(tg.own))))
        value = value + n.psi_back(a.own * cut(n.theta(b.summed * cut(n.psi(g.summed)))))
        inner = n.theta(times(n.s2 * other, b.own * cut(tg.summed)))
        value = value + n.s1 * other * n.theta(times(n.s2 * zeta, a.summed) * cut(inner))
    return value
