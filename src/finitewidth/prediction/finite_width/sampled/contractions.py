r"""What one sampled neuron contributes: contractions of the tensors with legs on the training points.

A source is a function of all points that training still has to deliver. The covariance has two free labels:
one sample of it is a sum of a few products *left(g) right(D)*, right being a source and left what training
leaves of a function, or a source as well.

Arrays have shape (samples, outputs, points) as in `neuron`. With several outputs, two residuals whose outputs
are summed over become one by random signs.
"""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
from jaxtyping import Array, Float

from finitewidth.prediction.finite_width.sampled.neuron import Neuron, Rows, Signs


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
    th = lambda v: n.theta(n.cut(q) * v)
    thc = lambda v: n.theta(n.cut(c) * v)
    psi = lambda v: n.onto(n.psi, v)
    phi_modes, leg_modes, cut = n.cut(phi_leg) @ U, n.cut(leg) @ U, n.cut
    a_labels, a_phi, a_leg = ((weights.a * v) @ U.T for v in (labels, phi_modes, leg_modes))
    b_labels, b_phi, b_leg = ((weights.b * v) @ U.T for v in (labels, phi_modes, leg_modes))
    th_labels, th_phi = th(b_labels), th(b_phi)
    c_labels, c_leg, psi_labels, psi_leg = thc(b_labels), thc(b_leg), psi(b_labels), psi(b_leg)
    fixed = f * (th(a_phi) * th_labels + th(a_labels) * th_phi)
    fixed = fixed + psi(a_leg) * c_labels + outputs * psi(a_labels) * c_leg
    fixed = fixed + outputs * thc(a_leg) * psi_labels + thc(a_labels) * psi_leg
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
    th = lambda v: n.theta(n.cut(q) * v)
    thc = lambda v: n.theta(n.cut(c) * v)
    psi = lambda v: n.onto(n.psi, v)
    th_b, thc_b, psi_b, cut = th(b), thc(b), psi(b), n.cut
    bent = weights.fixed * outputs * f * th(a) * th_b
    bent = bent + weights.moved * q * n.theta(a * cut(f * th_b))
    crossed = weights.fixed * (psi(a) * thc_b + thc(a) * psi_b)
    moved = n.back(n.psi, a * cut(thc_b)) + outputs * c * n.theta(a * cut(psi_b))
    return Product(phi_leg, bent), Product(leg, crossed + weights.moved * moved)


class Legs(eqx.Module):
    """One leg of the ddNTK: its residual with the free output, and with an output that is summed over."""

    own: Rows
    summed: Rows

    def map(self, operation: Callable[[Rows], Rows]) -> "Legs":
        """The same operation on both, once if they are the same."""
        own = operation(self.own)
        return Legs(own, own if self.own is self.summed else operation(self.summed))


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
    a, b, g = legs
    ta, tb, tg = (leg.map(block.th) for leg in legs)
    pi = lambda leg: leg.map(lambda v: n.onto(n.pi, v))
    pi_b, pi_g = pi(b), pi(g)
    value = n.onto(n.pi, a.own) * tb.summed * tg.summed
    value = weights.I_D * (value + ta.summed * (pi_b.own * tg.summed + pi_g.own * tb.summed))
    bent = n.back(n.pi, a.own * n.cut(tb.summed * tg.summed))
    bent = bent + block.q * n.theta(a.summed * n.cut(pi_g.summed * tb.own + pi_b.summed * tg.own))
    value = value + weights.I_a * bent
    value = value + weights.J_D * block.J(a, b, g, tb, tg)
    value = value + weights.J_s * block.J(b, a, g, ta, tg)
    value = value + weights.J_a * block.J(a, g, b, tg, tb)
    return value + weights.J_b * block.J_b(a, b, g, tg)


def second_change_of_equal_legs(n: Neuron, signs: Signs, e: Legs) -> Rows:
    r"""$\frac16I_D+\frac12I_a+J_s+J_b$ on three equal legs: where J_D, J_s and J_a are the same."""
    block = SecondChange.of(n, signs)
    t, pi = e.map(block.th), e.map(lambda v: n.onto(n.pi, v))
    value = pi.own * t.summed**2 + n.back(n.pi, e.own * n.cut(t.summed**2))
    value = value / 2 + block.q * n.theta(e.summed * n.cut(pi.summed * t.own))
    return value + block.J(e, e, e, t, t) + block.J_b(e, e, e, t)


class SecondChange(NamedTuple):
    """The arrangements J of the ddNTK, with two probes of b: q = s' zeta, q' = s' zeta', and s'' of both."""

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

    def th(self, v: Rows) -> Rows:
        return self.neuron.theta(self.neuron.cut(self.q) * v)

    def J(self, a: Legs, b: Legs, g: Legs, tb: Legs, tg: Legs) -> Rows:
        """J_Dabc: S, T and U; tb and tg are the legs b and g behind `th`."""
        n, cut = self.neuron, self.neuron.cut
        psi = lambda v: n.onto(n.psi, v)
        value = tb.summed * n.onto(n.sigma, a.own * cut(tg.summed))
        value = value + psi(b.own) * n.theta(a.summed * cut(psi(g.summed)))
        bent = n.theta(cut(self.bent_other) * a.summed * cut(tg.own))
        return value + self.bent * n.theta(cut(self.other) * b.summed) * bent

    def J_b(self, a: Legs, b: Legs, g: Legs, tg: Legs) -> Rows:
        """J_abDc: S, T and U."""
        n, cut = self.neuron, self.neuron.cut
        value = self.q * n.theta(a.summed * cut(n.onto(n.sigma, b.summed * cut(tg.own))))
        inner = n.theta(b.summed * cut(n.onto(n.psi, g.summed)))
        value = value + n.back(n.psi, a.own * cut(inner))
        inner = n.theta(cut(self.bent_other) * b.own * cut(tg.summed))
        return value + self.other * n.theta(cut(self.bent) * a.summed * cut(inner))


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
