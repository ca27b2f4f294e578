r"""How deep a network of a given width should be: the optimal aspect ratio L/n.

Given the layer below, the $n_L$ neurons of a layer are independent Gaussians with a common random variance,
whose relative variance is $\epsilon=V/(nK^2)$. Their joint density departs from a Gaussian one by the
generalised Laguerre polynomial of second degree in $|z|^2/K$, whose mean square is $n_L(n_L+2)/2$ and mean
cube $n_L(n_L+2)(n_L+8)$. So the negentropy of m neurons is
$\epsilon^2m(m+2)/16-\epsilon^3m(m+2)(m+8)/48+\dots$, and the mutual information of two groups of $m_1$ and
$m_2=n_L-m_1$ neurons is

$$I=m_1m_2\Bigl(\frac{\epsilon^2}{8}-\frac{(20+3n_L)\,\epsilon^3}{48}\Bigr)+O(\epsilon^4).$$

At criticality $\epsilon=\nu L/n$. Width alone gives no cooperation between neurons, too much depth gives
noise; the truncated series is largest at $\epsilon=4/(20+3n_L)$.
"""

import dataclasses
from typing import NamedTuple

import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.statistics.first_order.depth_growth import depth_growth

# Mutual information takes two neurons.
_FEWEST_NEURONS = 2
_NEGLIGIBLE, _LOW, _HIGH = 0.05, 0.5, 2.0


class AspectRatio(NamedTuple):
    """Where a network sits between infinite width and chaos.

    Attributes
    ----------
    ratio
        Depth over width, L/n.
    optimal
        The ratio at which two groups of output neurons share most information.
    slope
        Growth of V/K^2 per layer, for this activation, initialisation and depth.
    verdict
        What the ratio means, in words.
    """

    ratio: float
    optimal: float
    slope: float
    verdict: str


def mutual_information(epsilon: float, first: int = 1, second: int = 1) -> float:
    """Information, in nats, that two groups of neurons of one layer share, to third order in epsilon.

    `epsilon` is V/(n K^2), the relative variance of the neurons' common variance.
    """
    return first * second * (epsilon**2 / 8 - (20 + 3 * (first + second)) * epsilon**3 / 48)


def optimal_non_gaussianity(n_out: int) -> float:
    """The epsilon at which the mutual information of the outputs is largest."""
    return 4 / (20 + 3 * max(n_out, _FEWEST_NEURONS))


def aspect_ratio(net: Layer, square: float, width: int | None = None) -> AspectRatio:
    """Judge a network for inputs of the given mean square; `width` counts where nothing is hidden."""
    net = dense_stack(net)
    if not net.hidden:
        ratio = net.depth / (width or net.n_out)
        return AspectRatio(ratio, float("nan"), 0.0, "no hidden layer: a linear model, exactly Gaussian.")
    # The mean of 1/n decides where widths differ. Coefficients of an expansion in 1/width are those of equal
    # widths, whatever they are.
    ratio = net.depth * float(np.mean([1 / n for n in net.hidden]))
    growth = depth_growth(dataclasses.replace(net, hidden=(2,) * len(net.hidden)), square)
    slope = float(growth.V[-1] / growth.K[-1] ** 2) / net.depth
    optimal = optimal_non_gaussianity(net.n_out) / slope
    return AspectRatio(ratio, optimal, slope, verdict(ratio, optimal))


def verdict(ratio: float, optimal: float) -> str:
    """What depth over width means beside its optimum."""
    share = ratio / optimal
    if share < _NEGLIGIBLE:
        return "practically infinitely wide: kernel theory is accurate, features hardly move."
    if share < _LOW:
        return "wide: kernel theory leads, corrections of order L/n are visible; depth could grow."
    if share <= _HIGH:
        return "near the optimum: corrections of order L/n matter and are under control."
    return "too deep for its width: fluctuations between initialisations dominate; widen it."
