r"""Where the posterior of deep linear networks concentrates when all sizes are large.

Let $\nu=|\theta_*|^2n_0/(PS)$ compare the interpolant of P labels with what the prior expects of it. The
posterior of s then sits where

$$\prod_l\Big(1+\frac\mu{n_l}\Big)=s,\qquad1-\frac\nu s+\frac\mu P=0.$$

With many layers the product is $e^{\mu\sum1/n_l}$, and only the effective depth $\lambda=P\sum_l1/n_l$ is
left: $1-\nu/s+\log(s)/\lambda=0$. At $\lambda\to0$ the networks are a Gaussian process, s = 1; at
$\lambda\to\infty$ they take the scale from the data, $s=\nu$, as the best prior would.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.optimize import root_scalar
from scipy.special import polygamma

from finitewidth._base.checks import check_positive, check_whole


def effective_depth(points: int, hidden: Sequence[int]) -> float:
    """Points times the sum of 1/width over the hidden layers."""
    check_whole("points", points)
    for n in hidden:
        check_whole("a width", n)
    return points * sum(1 / n for n in hidden)


def posterior_scale(nu: float | int, points: int, hidden: Sequence[int]) -> float:
    r"""The s at which the posterior concentrates, with an error of the order of 1/points.

    Parameters
    ----------
    nu
        $|\theta_*|^2n_0/(PS)$.
    points
        P.
    hidden
        Widths of the hidden layers, equal or not.
    """
    check_positive("nu", nu)
    check_whole("points", points)
    n = np.array(hidden, dtype=float)
    if not len(n):
        return 1.0

    def excess(log_s: float | int) -> float:
        """Log of the product of the layers at the mu of this s, minus log s."""
        mu = points * (nu * np.exp(-log_s) - 1)
        if mu <= -n.min():
            return -np.inf
        return float(np.sum(np.log1p(mu / n)) - log_s)

    return _between_one_and(nu, lambda log_s: float(np.clip(excess(log_s), -1e3, 1e3)))


def posterior_scale_of_depth(nu: float | int, effective_depth: float | int) -> float:
    """The same in the limit of many layers, where only the effective depth counts."""
    check_positive("nu", nu)
    check_positive("effective_depth", effective_depth)
    return _between_one_and(nu, lambda log_s: float(1 - nu * np.exp(-log_s) + log_s / effective_depth))


def limiting_prior_variance(square: float | int, points: int, features: int, hidden: Sequence[int]) -> float:
    r"""The prior variance S of largest evidence when there are many points.

    $S=|\theta_*|^2\,(n_0/P)\,/\,s_0$ with the most probable $\log s_0$ of the prior: many points know s, and
    the evidence of S is the prior's density there. The cumulants of $\log s$ come from
    $K(t)=\sum_lk(n_l/2,t)$ with $k(a,t)=\log\Gamma(a+t)-\log\Gamma(a)-t\log a$. The density by the method of
    steepest descent is largest at $\log s_0=K'(t)$ where $t=-K^{(3)}(t)/2K^{(2)}(t)^2$. This leaves out terms
    of order $1/n^2$, whatever the depth. To first order in 1/n, $-\log s_0=A-\sum_ln_l^{-2}/A$ with
    $A=\sum_l1/n_l$, and $(L-1)/n$ with layers of one width.

    Parameters
    ----------
    square
        The squared length of the interpolant.
    points, features, hidden
        P, $n_0$ and the widths of the hidden layers.
    """
    check_positive("square", square)
    limit = square * features / points
    if not len(hidden):
        return float(limit)
    half = np.array(hidden, float) / 2
    cumulant = lambda order, t: float(np.sum(polygamma(order - 1, half + t)))
    balance = lambda t: 2 * t * cumulant(2, t) ** 2 + cumulant(3, t)
    # One layer has t = 1/2 and terms of order 1/n, many layers have less.
    t = root_scalar(balance, bracket=(0.0, 4.0), method="brentq").root
    return float(limit * np.exp(np.sum(np.log(half)) - cumulant(1, t)))


def _between_one_and(nu: float | int, balance: Callable[[float], float]) -> float:
    """The s between 1 and nu at whose logarithm a function vanishes."""
    low, high = sorted((0.0, float(np.log(nu))))
    found = root_scalar(balance, bracket=(low - 1e-12, high + 1e-12), method="brentq")
    return float(np.exp(found.root))
