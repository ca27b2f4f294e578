r"""Derivatives of random networks by their inputs, as sums over paths, exact at every width.

The derivative of output q by input p of a network without biases is a sum over all paths from p to q of
products of weights and slopes. Where the activation is linear on either side of zero, the slopes at one input
are fair coins, independent of every function that is even in the weights of each neuron. So, with $A_m$ the
mean m-th power of the slopes, the moments of one and of two neurons of a layer close on themselves:

$$a'=\frac{C^2}n\big[\mu_4A_4\,a+3(n-1)A_2^2\,b\big],\qquad b'=\frac{C^2}n\big[A_4\,a+(n-1)A_2^2\,b\big],$$

$a=E[J_i^4]$, $b=E[J_i^2J_j^2]$, C the C_W of the layer above, n neurons and weights of fourth moment $\mu_4$
(3 for Gaussian ones). With Gaussian weights and ReLU at $C=2$ every layer multiplies by $1+5/n$.
"""

from fractions import Fraction
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import digamma, polygamma
from scipy.stats import binom

from finitewidth._base.checks import check_whole
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.statistics.exact.deep_linear import LogNormal
from finitewidth.statistics.exact.paths import checked_slopes
from finitewidth.statistics.wide.inputs import check_described

WeightLaw = Literal["gaussian", "uniform"] | Fraction | int | float
_FOURTH_MOMENTS = {"gaussian": Fraction(3), "uniform": Fraction(9, 5)}


class JacobianMoments(NamedTuple):
    r"""Second and fourth moments of $J=\partial z/\partial x$ at one input, as exact fractions.

    `entry_second` and `entry_fourth` are of one entry; `column` is $|J e_p|$, all outputs by one input; `row`
    is $|\nabla_xz_q|$, one output by all inputs.
    """

    entry_second: Fraction
    entry_fourth: Fraction
    column_second: Fraction
    column_fourth: Fraction
    row_second: Fraction
    row_fourth: Fraction

    @property
    def entry_ratio(self) -> float:
        """Fourth moment of an entry over its squared second moment; 3 for a Gaussian."""
        return float(self.entry_fourth / self.entry_second**2)

    @property
    def row_ratio(self) -> float:
        """The same of the gradient's length; 1 if all networks had the same."""
        return float(self.row_fourth / self.row_second**2)


def jacobian_moments(net: Layer, n_in: int, weights: WeightLaw = "gaussian") -> JacobianMoments:
    r"""Exact moments of input-output derivatives at any input but zero, at every width and depth.

    Parameters
    ----------
    net
        Without biases, with an activation that is linear on either side of zero.
    n_in
        Number of inputs.
    weights
        The law of the weights: "gaussian", "uniform", or the fourth moment of a symmetric law of variance
        one. Preactivations must not be zero by chance: weights of $\pm1$ may violate this.

    Examples
    --------
    >>> import finitewidth as fw
    >>> from finitewidth.course.path_counting.theory import jacobian_moments
    >>> moments = jacobian_moments(fw.MLP((6, 5, 7), "relu"), n_in=4)
    >>> moments.entry_second, moments.entry_fourth      # 2/n_0 and 12/n_0^2 prod (1 + 5/n)
    (Fraction(1, 2), Fraction(33, 7))
    """
    check_described(net)
    check_whole("n_in", n_in)
    mu4 = _fourth_moment(weights)
    slopes, net = checked_slopes(net, rates=False), dense_stack(net)
    left, right = Fraction(slopes.left), Fraction(slopes.right)
    A2, A4 = (left**2 + right**2) / 2, (left**4 + right**4) / 2
    C = [Fraction(float(value)) for value in net.C_W]
    sizes = (n_in, *net.hidden, net.n_out)

    def along(widths: tuple[int, ...], variances: list[Fraction]) -> tuple[Fraction, Fraction, Fraction]:
        """Of one neuron behind the last of these layers: E J^2, E J^4, and E J_1^2 J_2^2 of two."""
        second, a, b = variances[0], mu4 * variances[0] ** 2, variances[0] ** 2
        for n, v in zip(widths, variances[1:], strict=True):
            same, other = n * A4 * a, n * (n - 1) * A2**2 * b
            second, a, b = n * v * A2 * second, v**2 * (mu4 * same + 3 * other), v**2 * (same + other)
        return second, a, b

    variances = [c / n for c, n in zip(C, sizes[:-1], strict=True)]
    second, fourth, pair = along(net.hidden, variances)
    _, _, back_pair = along(net.hidden[::-1], variances[::-1])
    n_out = net.n_out
    return JacobianMoments(
        second,
        fourth,
        n_out * second,
        n_out * fourth + n_out * (n_out - 1) * pair,
        n_in * second,
        n_in * fourth + n_in * (n_in - 1) * back_pair,
    )


def exponential_growth(net: Layer) -> float:
    r"""$e^{5\sum_l1/n_l}$, which $\prod_l(1+5/n_l)$ of critical ReLU networks stays below and is close to."""
    return float(np.exp(5 * sum(1 / n for n in dense_stack(net).hidden)))


class LogNorm(NamedTuple):
    r"""$\log\big(|h_L|^2n_0/(n_L|x|^2)\big)$ of a critical ReLU network whose layers are not dead.

    `mean` and `variance` are exact; `limit` is $N(-\beta/2,\beta)$ with $\beta=5\sum_l1/n_l$.
    """

    mean: float
    variance: float
    limit: LogNormal


def log_norm(net: Layer) -> LogNorm:
    r"""The law of the length of the last hidden layer, or of a column of derivatives.

    Given the number B of neurons that are on, a layer multiplies the squared length by
    $\frac2n\chi^2_B$, with B binomial and not zero. An entry of the Jacobian is in the limit
    $\frac2{n_0}\chi^2_1e^{N(-\beta/2,\beta)}$: its square carries a chi-square of its own. With $n_{out}$
    outputs a column adds $2/n_{out}$ to $\beta$.
    """
    checked_slopes(net, rates=False)
    stack = dense_stack(net)
    if stack.activation.name != "relu":
        raise ValueError(f"activation {stack.activation.name!r} is not 'relu', whose neurons are on or off.")
    mean = variance = 0.0
    for n in stack.hidden:
        on = np.arange(1, n + 1)
        share = binom.pmf(on, n, 0.5)
        share /= share.sum()
        logs = digamma(on / 2) + np.log(4 / n)
        average = float(share @ logs)
        mean += average
        variance += float(share @ (polygamma(1, on / 2) + (logs - average) ** 2))
    beta = 5 * sum(1 / n for n in stack.hidden)
    return LogNorm(mean, variance, LogNormal(-beta / 2, beta))


def _fourth_moment(weights: WeightLaw) -> Fraction:
    if isinstance(weights, str):
        if weights not in _FOURTH_MOMENTS:
            raise ValueError(
                f"weights {weights!r} is not one of {', '.join(_FOURTH_MOMENTS)}; give a fourth moment."
            )
        return _FOURTH_MOMENTS[weights]
    if not weights >= 1:
        raise ValueError(f"weights = {weights!r}: a fourth moment is at least the squared variance, 1.")
    return Fraction(weights)
