r"""What one sampled neuron contributes to the covariance of trained outputs.

The covariance has two free labels. For one sample it is a sum of a few products *left(g) right(D)*: right is
a source at D that training still has to deliver, as for the mean; left is a function at g that training has
partly unlearnt, or a source as well. These are the contractions that the mean does not have; all others are
sources of the mean with a random initial function among their residuals, times what training leaves of it.

Arrays have shape (samples, outputs, points) as in `neuron_sources`.
"""

from typing import NamedTuple

import jax
from jaxtyping import PRNGKeyArray

from finitewidth.prediction.finite_width.sampled.neuron_sources import Neuron, Rows


class Product(NamedTuple):
    """A function at all points times a source at all points."""

    left: Rows
    right: Rows


def initial_fluctuation(neuron: Neuron, v: Rows) -> Rows:
    """Fluctuation of the initial outputs' kernel, centred, summed over training labels."""
    e, s0, onto = neuron.at.edges, neuron.s0, neuron.onto
    value = s0 * onto(e.KE, neuron.times(s0, v)) - onto(e.K_mean, v)
    if neuron.at.top:
        return value
    return value + s0**2 * onto(e.KA, v) + neuron.back(e.KA, neuron.times(s0**2, v))


def lambda_back(neuron: Neuron, v: Rows) -> Rows:
    """L(b, D) summed over its first label."""
    e, s0, s1 = neuron.at.edges, neuron.s0, neuron.s1
    value = s1 * neuron.back(e.E, neuron.times(s0, v))
    return value if neuron.at.top else value + s0 * s1 * neuron.back(e.Ea, v)


def correlated_kernel(
    neuron: Neuron, key: PRNGKeyArray, first: Rows, second: Rows, outputs: int
) -> tuple[Product, Product]:
    """Initial outputs correlated with fluctuations of the kernel that learns them: D and F.

    The mean of `first` times `second` is the weight of the pair of residual and kernel.
    """
    w, c = neuron.lambda_probe(key)
    back = lambda_back(neuron, first)
    crossed = outputs * c * neuron.theta(second * neuron.cut(back))
    crossed = crossed + neuron.theta(neuron.times(c, second)) * back
    return Product(initial_fluctuation(neuron, first), -neuron.dtheta(second)), Product(w, -crossed)


def response_a(neuron: Neuron, early: Rows, late: Rows) -> Product:
    """Square of the response to kernel fluctuations, both from the mean square of one neuron: A."""
    return Product(neuron.dtheta(early), neuron.dtheta(late))


def response_b(neuron: Neuron, key: PRNGKeyArray, early: Rows, late: Rows, outputs: int) -> Product:
    """The same with crossed neurons, in both arrangements: B."""
    rows = neuron.s0.shape[0]
    zeta, other = (neuron.at.b.probe(k, rows)[0] * neuron.s1 for k in jax.random.split(key))
    h = lambda v: zeta * neuron.theta(neuron.times(other, v))
    h_back = lambda v: other * neuron.theta(neuron.times(zeta, v))
    return Product(h(early), outputs * h(late) + h_back(late))


def first_change_of_start(
    neuron: Neuron, key: PRNGKeyArray, legs: tuple[Rows, Rows], outputs: int, *, moved: bool
) -> tuple[Product, Product]:
    """The dNTK with residuals on both of its legs, correlated with the initial outputs at the free point.

    `moved` adds the terms in which the kernel has moved before it acts.
    """
    a, b = legs
    (f, phi_leg), (leg, c), q = neuron.dntk_probes(key)
    th = lambda v: neuron.theta(neuron.times(q, v))
    thc = lambda v: neuron.theta(neuron.times(c, v))
    th_b, thc_b, psi_b = th(b), thc(b), neuron.psi(b)
    bent = outputs * f * th(a) * th_b
    crossed = neuron.psi(a) * thc_b + thc(a) * psi_b
    if moved:
        cut = neuron.cut
        bent = bent + q * neuron.theta(a * cut(f * th_b))
        crossed = crossed + neuron.psi_back(a * cut(thc_b)) + outputs * c * neuron.theta(a * cut(psi_b))
    return Product(phi_leg, bent), Product(leg, crossed)
