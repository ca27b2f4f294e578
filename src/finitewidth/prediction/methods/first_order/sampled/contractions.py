r"""What one sampled neuron contributes: contractions of the tensors with legs on the training points.

A source is a function of all points that training still has to deliver. The covariance has two free labels:
one sample of it is a sum of a few products *left(g) right(D)*, right being a source and left what training
leaves of a function, or a source as well.

Arrays have shape (samples, outputs, points) as in `neuron`. With several outputs, two residuals whose outputs
are summed over become one by random signs.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.prediction.methods.first_order.sampled.neuron import Neuron, Rows, Signs


def together(operation: Callable[[Rows], Rows], *parts: Rows) -> list[Rows]:
    """One operation on several arrays side by side on the axis of outputs: fewer and larger products."""
    rows = max(part.shape[0] for part in parts)
    whole = jnp.concatenate([jnp.broadcast_to(part, (rows, *part.shape[1:])) for part in parts], axis=1)
    return jnp.split(operation(whole), np.cumsum([part.shape[1] for part in parts])[:-1], axis=1)


class Product(NamedTuple):
    """A function at all points times a source at all points."""

    left: Rows
    right: Rows


class CrossedNeurons(NamedTuple):
    """h = s' zeta Theta s' zeta', the crossed fluctuation of the NTK, as two factors around Theta."""

    neuron: Neuron
    one: Rows
    two: Rows

    @classmethod
    def of(cls, neuron: Neuron, signs: Signs) -> "CrossedNeurons":
        one, two = neuron.slope_probes(signs)
        return cls(neuron, neuron.s1 * one, neuron.s1 * two)

    def onto(self, v: Rows) -> Rows:
        """h v."""
        return self.neuron.between(self.one, self.two, v)

    def back(self, v: Rows) -> Rows:
        """v h."""
        return self.neuron.between(self.two, self.one, v)


class Probes(NamedTuple):
    """What the dNTK is made of: Phi = f phi_leg and L = leg c as products, and q = s' zeta."""

    f: Rows
    phi_leg: Rows
    leg: Rows
    c: Rows
    q: Rows

    @classmethod
    def of(cls, neuron: Neuron, signs: Signs) -> "Probes":
        zeta, _ = neuron.at.slopes.probe(signs(1, neuron.at.slopes.rank))
        return cls(*neuron.phi_probe(signs), *neuron.lambda_probe(signs), neuron.s1 * zeta)


class FirstWeights(NamedTuple):
    """Weights of the dNTK: of D in the first place, of D in the second and third, and factors of its legs."""

    fixed: Rows | float
    moved: Rows | float
    a: Rows
    b: Rows


def first_change(
    n: Neuron,
    probes: Probes,
    U: Float[Array, "train k"],
    weights: FirstWeights,
    labels: Rows,
    outputs: int,
) -> Rows:
    """The dNTK with the initial outputs on one leg; `labels` are the targets in the eigenbasis."""
    f, phi_leg, leg, c, q = probes
    phi_modes, leg_modes, cut = n.cut(phi_leg) @ U, n.cut(leg) @ U, n.cut
    a_labels, a_phi, a_leg = ((weights.a * v) @ U.T for v in (labels, phi_modes, leg_modes))
    b_labels, b_phi, b_leg = ((weights.b * v) @ U.T for v in (labels, phi_modes, leg_modes))
    psi_a, psi_a_leg, psi_labels, psi_leg = together(
        lambda v: n.onto(n.psi, v), a_labels, a_leg, b_labels, b_leg
    )
    th_a, th_a_phi, th_labels, th_phi = together(
        lambda v: n.theta(cut(q) * v), a_labels, a_phi, b_labels, b_phi
    )
    c_a, c_a_leg, c_labels, c_leg = together(lambda v: n.theta(cut(c) * v), a_labels, a_leg, b_labels, b_leg)
    fixed = f * (th_a_phi * th_labels + th_a * th_phi)
    fixed = fixed + psi_a_leg * c_labels + outputs * psi_a * c_leg
    fixed = fixed + outputs * c_a_leg * psi_labels + c_a * psi_leg
    moved = q * n.theta(cut(f) * (outputs * a_phi * cut(th_labels) + a_labels * cut(th_phi)))
    moved = moved + n.back(n.psi, a_leg * cut(c_labels) + outputs * a_labels * cut(c_leg))
    moved = moved + c * n.theta(a_leg * cut(psi_labels) + a_labels * cut(psi_leg))
    return -(weights.fixed * fixed + weights.moved * moved)


def first_change_of_start(
    n: Neuron, probes: Probes, weights: FirstWeights, legs: tuple[Rows, Rows], outputs: int
) -> tuple[Product, Product]:
    """The dNTK with residuals on both of its legs, correlated with the initial outputs at the free point."""
    a, b = legs
    f, phi_leg, leg, c, q = probes
    cut = n.cut
    th_a, th_b = together(lambda v: n.theta(cut(q) * v), a, b)
    c_a, c_b = together(lambda v: n.theta(cut(c) * v), a, b)
    psi_a, psi_b = together(lambda v: n.onto(n.psi, v), a, b)
    bent = weights.fixed * outputs * f * th_a * th_b
    bent = bent + weights.moved * q * n.theta(a * cut(f * th_b))
    crossed = weights.fixed * (psi_a * c_b + c_a * psi_b)
    moved = n.back(n.psi, a * cut(c_b)) + outputs * c * n.theta(a * cut(psi_b))
    return Product(phi_leg, bent), Product(leg, crossed + weights.moved * moved)


class Legs(NamedTuple):
    """One leg of the ddNTK: its residual with the free output, and with an output that is summed over."""

    own: Rows
    summed: Rows


def of_legs(operation: Callable[[Rows], Rows], legs: tuple[Legs, ...]) -> list[Legs]:
    """One operation on all legs; what is summed over is only computed where it differs."""
    own, summed = zip(*legs, strict=True)
    if own[0] is summed[0]:
        return [Legs(v, v) for v in together(operation, *own)]
    found = together(operation, *own, *summed)
    return [Legs(*both) for both in zip(found[: len(legs)], found[len(legs) :], strict=True)]


class SecondWeights(NamedTuple):
    """How often each arrangement of the ddNTK enters; see `projector_weights`."""

    I_D: Rows | float
    I_a: Rows | float
    J_D: Rows | float
    J_s: Rows | float
    J_a: Rows | float
    J_b: Rows | float


def second_change(n: Neuron, signs: Signs, weights: SecondWeights, legs: tuple[Legs, Legs, Legs]) -> Rows:
    """The ddNTK with three residual legs."""
    block = SecondChange.of(n, signs)
    a, b, g = block.prepared(legs)
    value = weights.I_D * (block.R(a, b, g) + block.R(b, a, g) + block.R(g, a, b))
    value = value + weights.I_a * block.I_a(a, b, g)
    value = value + weights.J_D * block.J(a, b, g)
    value = value + weights.J_s * block.J(b, a, g)
    value = value + weights.J_a * block.J(a, g, b)
    return value + weights.J_b * block.J_b(a, b, g)


def second_change_of_equal_legs(n: Neuron, signs: Signs, leg: Legs) -> Rows:
    r"""$\frac16I_D+\frac12I_a+J_s+J_b$ on three equal legs, where J_D, J_s and J_a are the same."""
    block = SecondChange.of(n, signs)
    (e,) = block.prepared((leg,))
    value = (block.R(e, e, e) + block.I_a(e, e, e)) / 2
    return value + block.J(e, e, e) + block.J_b(e, e, e)


class PreparedLeg(NamedTuple):
    """A leg as it is, and behind s' zeta Theta, Pi and Psi.

    With a third derivative by parts also behind its share of Pi, `third`, and behind the share of Theta whose
    slope is differentiated in its place, `moved`.
    """

    leg: Legs
    th: Legs
    pi: Legs
    psi: Legs
    third: Legs | None
    moved: Legs | None


class SecondChange(NamedTuple):
    """The arrangements of the ddNTK, with two probes of b: q = s' zeta, q' = s' zeta', and s'' of both."""

    neuron: Neuron
    q: Rows
    other: Rows
    bent: Rows
    bent_other: Rows

    @classmethod
    def of(cls, neuron: Neuron, signs: Signs) -> "SecondChange":
        one, two = neuron.slope_probes(signs)
        s1, s2 = neuron.s1, neuron.s2
        return cls(neuron, s1 * one, s1 * two, s2 * one, s2 * two)

    def prepared(self, legs: tuple[Legs, ...]) -> list[PreparedLeg]:
        n = self.neuron
        th = of_legs(lambda v: n.theta(n.cut(self.q) * v), legs)
        pi, psi = (of_legs(lambda v, terms=terms: n.onto(terms, v), legs) for terms in (n.pi, n.psi))
        third, moved = [None] * len(legs), [None] * len(legs)
        by_parts = n.at.by_parts
        if by_parts is not None:
            edge = by_parts.Theta[:, : n.at.train]
            third = of_legs(lambda v: n.onto(n.third, v), legs)
            moved = of_legs(lambda v: (n.cut(self.bent) * v) @ edge.T, legs)
        return [PreparedLeg(*parts) for parts in zip(legs, th, pi, psi, third, moved, strict=True)]

    def R(self, a: PreparedLeg, b: PreparedLeg, g: PreparedLeg) -> Rows:
        """R_Dabc."""
        value = a.pi.own * b.th.summed * g.th.summed
        if a.third is None or b.moved is None or g.moved is None:
            return value
        return value + a.third.own * (b.moved.summed * g.th.summed + b.th.summed * g.moved.summed)

    def I_a(self, a: PreparedLeg, b: PreparedLeg, g: PreparedLeg) -> Rows:
        """I_aDbc: R in its three arrangements."""
        n, cut = self.neuron, self.neuron.cut
        value = n.back(n.pi, a.leg.own * cut(b.th.summed * g.th.summed))
        crossed = g.pi.summed * b.th.own + b.pi.summed * g.th.own
        value = value + self.q * n.theta(a.leg.summed * cut(crossed))
        by_parts = n.at.by_parts
        if by_parts is None or b.third is None or g.third is None or b.moved is None or g.moved is None:
            return value
        bends = b.moved.summed * g.th.summed + b.th.summed * g.moved.summed
        value = value + n.back(n.third, a.leg.own * cut(bends))
        crossed = g.third.summed * b.moved.own + b.third.summed * g.moved.own
        value = value + self.q * n.theta(a.leg.summed * cut(crossed))
        last = g.third.summed * b.th.own + b.third.summed * g.th.own
        return value + self.bent * ((a.leg.summed * cut(last)) @ by_parts.Theta[: n.at.train])

    def J(self, a: PreparedLeg, b: PreparedLeg, g: PreparedLeg) -> Rows:
        """J_Dabc: S, T and U."""
        n, cut = self.neuron, self.neuron.cut
        value = b.th.summed * n.onto(n.sigma, a.leg.own * cut(g.th.summed))
        value = value + b.psi.own * n.theta(a.leg.summed * cut(g.psi.summed))
        bent = n.theta(cut(self.bent_other) * a.leg.summed * cut(g.th.own))
        return value + self.bent * n.theta(cut(self.other) * b.leg.summed) * bent

    def J_b(self, a: PreparedLeg, b: PreparedLeg, g: PreparedLeg) -> Rows:
        """J_abDc: S, T and U."""
        n, cut = self.neuron, self.neuron.cut
        value = self.q * n.theta(a.leg.summed * cut(n.onto(n.sigma, b.leg.summed * cut(g.th.own))))
        inner = n.theta(b.leg.summed * cut(g.psi.summed))
        value = value + n.back(n.psi, a.leg.own * cut(inner))
        inner = n.theta(cut(self.bent_other) * b.leg.own * cut(g.th.summed))
        return value + self.other * n.theta(cut(self.bent) * a.leg.summed * cut(inner))


def correlated_kernel(
    n: Neuron, signs: Signs, first: Rows, second: Rows, outputs: int
) -> tuple[Product, Product]:
    """Initial outputs correlated with fluctuations of the kernel that learns them: D and F.

    The mean of `first` times `second` is the weight of the pair of residual and kernel.
    """
    w, c = n.lambda_probe(signs)
    back = n.back(n.lambda_, first)
    crossed = outputs * c * n.theta(second * n.cut(back)) + n.theta(n.cut(c) * second) * back
    return Product(n.dkernel(first), -n.dtheta(second)), Product(w, -crossed)
