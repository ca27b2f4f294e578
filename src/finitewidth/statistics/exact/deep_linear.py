r"""Deep linear networks at initialisation, exact at every width and depth.

The weights $\theta^T=W^{(L+1)}\cdots W^{(1)}$ of a linear network with one output point in a uniformly random
direction. Their squared length is independent of it, and a product of chi-squares:

$$|\theta|^2=S\prod_{l=0}^L\frac{\chi^2_{n_l}}{n_l},\qquad S=\prod_{l=1}^{L+1}C_W^{(l)}.$$

Each factor has mean one and variance $2/n_l$; the logarithm of $|\theta|$ has mean
$\frac12\sum_l[\psi(n_l/2)-\log(n_l/2)]\approx-\frac12\sum_l1/n_l$ and variance
$\frac14\sum_l\psi'(n_l/2)\approx\frac12\sum_l1/n_l$. Wide networks have $|\theta|\to\sqrt S$, deep ones
$|\theta|\to0$, and both at once a log-normal law: the two limits do not commute.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.special import digamma, gammaln, polygamma

from finitewidth._base.checks import check_key, check_whole
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import dense_stack
from finitewidth.statistics.exact.mellin_barnes import log_meijer
from finitewidth.statistics.wide.inputs import check_described


class LogNormal(NamedTuple):
    """A positive number whose logarithm is Gaussian."""

    mean_log: float
    variance_log: float


class ChiSquareProduct(eqx.Module):
    r"""The law of $s=\prod_l\chi^2_{n_l}/n_l$, a product of independent factors of mean one.

    Parameters
    ----------
    widths
        The degrees of freedom $n_l$, in any order; without any s is one.

    Examples
    --------
    >>> from finitewidth.statistics import ChiSquareProduct
    >>> s = ChiSquareProduct((4, 6))
    >>> round(s.moment(2), 6)    # (1 + 2/4) (1 + 2/6)
    2.0
    """

    widths: tuple[int, ...] = eqx.field(static=True)

    def __init__(self, widths: Sequence[int]):
        for n in widths:
            check_whole("a width", n)
        self.widths = tuple(int(n) for n in widths)

    @property
    def mean_log(self) -> float:
        """Mean of log s."""
        n, counts = self._counted()
        return float(counts @ (digamma(n / 2) - np.log(n / 2)))

    @property
    def variance_log(self) -> float:
        """Variance of log s."""
        n, counts = self._counted()
        return float(counts @ polygamma(1, n / 2))

    def log_normal(self) -> LogNormal:
        r"""The limit of many wide factors, $\log s\sim N(-\sum1/n_l,\ 2\sum1/n_l)$."""
        inverse = sum(1 / n for n in self.widths)
        return LogNormal(-inverse, 2 * inverse)

    def log_moment(self, power: float | int) -> float:
        """Log of the mean of s^power; infinite from power = -min(widths)/2 downwards."""
        n, counts = self._counted()
        if 2 * power <= -min(self.widths, default=np.inf):
            return np.inf
        return float(counts @ (power * np.log(2 / n) + gammaln(n / 2 + power) - gammaln(n / 2)))

    def moment(self, power: float | int) -> float:
        """The mean of s^power."""
        return float(np.exp(self.log_moment(power)))

    def log_density(self, log_s: float | int) -> float:
        """Log density of log s, at one value of it."""
        if not self.widths:
            raise ValueError("widths is empty, so s is one and has no density.")
        n, counts = self._counted()
        constant = counts @ gammaln(n / 2)
        return log_meijer(n / 2, counts, log_s - float(counts @ np.log(2 / n))) - float(constant)

    def log_average(self, power: float | int, c: float | int) -> float:
        r"""Log of the mean of $s^a\,e^{-c/s}$, with a the power and c zero or more.

        Evaluated by the integral of $\Gamma(t)\,c^{-t}\,E[s^{t+a}]$ through its saddle. At c = 0 it is
        infinite from a = -min(widths)/2 downwards.
        """
        if not c >= 0:
            raise ValueError(f"c must be zero or more, got {c!r}.")
        if c == 0:
            return self.log_moment(power)
        if not self.widths:
            return -float(c)
        n, counts = self._counted()
        log_scale = np.log(2 / n)
        shifts = np.concatenate([[0.0], n / 2 + power])
        log_z = np.log(c) - counts @ log_scale
        constant = counts @ (power * log_scale - gammaln(n / 2))
        return log_meijer(shifts, np.concatenate([[1.0], counts]), float(log_z)) + float(constant)

    def sample_log(self, key: PRNGKeyArray, draws: int) -> Float[np.ndarray, " draws"]:
        """Independent draws of log s, which do not underflow where s itself would."""
        check_key(key)
        total = np.zeros(draws)
        for n in self.widths:
            key, part = jax.random.split(key)
            total += np.asarray(jax.random.loggamma(part, n / 2, (draws,))) - np.log(n / 2)
        return total

    def _counted(self) -> tuple[Float[np.ndarray, " different"], Float[np.ndarray, " different"]]:
        """The different widths, and how many layers have each."""
        found = Counter(self.widths)
        return np.array(list(found), dtype=float), np.array(list(found.values()), dtype=float)


class WeightNorm(eqx.Module):
    """The law of the length of the weights of a deep linear network.

    Attributes
    ----------
    prior_variance
        S, the product of C_W over all layers, which is the mean of the squared length.
    factors
        The law of the squared length over S.
    """

    prior_variance: float = eqx.field(static=True)
    factors: ChiSquareProduct

    @property
    def mean_log(self) -> float:
        """Mean of the logarithm of the length."""
        return (self.factors.mean_log + np.log(self.prior_variance)) / 2

    @property
    def variance_log(self) -> float:
        """Variance of the logarithm of the length."""
        return self.factors.variance_log / 4

    def log_normal(self) -> LogNormal:
        """The limit of networks both deep and wide, of the length."""
        mean_log, variance_log = self.factors.log_normal()
        return LogNormal((mean_log + float(np.log(self.prior_variance))) / 2, variance_log / 4)

    def moment(self, power: float | int) -> float:
        """The mean of length^power."""
        return self.prior_variance ** (power / 2) * self.factors.moment(power / 2)


def weight_norm(net: Layer, n_in: int) -> WeightNorm:
    """The exact law of the length of theta, for f(x) = theta.x of a deep linear network with one output.

    Parameters
    ----------
    net
        A network of linear layers without biases.
    n_in
        Number of input features.
    """
    check_whole("n_in", n_in)
    net = linear_network(net)
    return WeightNorm(float(np.prod(np.asarray(net.C_W))), ChiSquareProduct((n_in, *net.hidden)))


def linear_network(net: Layer) -> MLP:
    """The network as a stack of linear layers; refuses any whose weights do not multiply to one vector."""
    check_described(net)
    stack = dense_stack(net)
    if stack.hidden and stack.activation.name != "linear":
        raise ValueError(
            f"activation {stack.activation.name!r} is not 'linear'; the exact law is of linear layers."
        )
    if np.asarray(stack.C_b).any():
        raise ValueError(f"C_b = {tuple(map(float, stack.C_b))} must be zero: a bias is not part of theta.")
    if stack.n_out != 1:
        raise ValueError(
            f"n_out = {stack.n_out} must be 1: the lengths of several outputs are not independent."
        )
    return stack
