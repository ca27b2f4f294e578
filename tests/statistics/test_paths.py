"""Exact moments of the NTK: one hidden layer by hand, first order in 1/width, and the deep and wide limit."""

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.expectations.kinked.piecewise_linear import Slopes
from finitewidth.statistics.exact.paths import ntk_moments, ntk_ratio_limit
from tolerances import FIRST_ORDER, assert_close

RATES = {"C_b": 0.0, "C_W": (1.1, 1.7), "lambda_b": 0.0, "lambda_W": (0.4, 0.9)}


@pytest.mark.parametrize(("activation", "left"), [("relu", 0.0), ("leaky_relu:0.3", 0.3), ("linear", 1.0)])
def test_one_hidden_layer_by_hand(activation, left):
    """H = lambda X + Theta Y with X the mean square value and Y the sum of squared weights times slopes."""
    n, square = 7, 0.6
    A2, A4 = (1 + left**2) / 2, (1 + left**4) / 2
    K, Theta, C, lam = 1.1 * square, 0.4 * square, 1.7, 0.9
    XX = K**2 * (3 * A4 + (n - 1) * A2**2) / n
    XY = C * K * (A4 + (n - 1) * A2**2) / n
    YY = C**2 * (3 * A4 + (n - 1) * A2**2) / n
    moments = ntk_moments(fw.MLP((n,), activation, **RATES), square)
    assert_close(moments.mean, lam * K * A2 + Theta * C * A2)
    assert_close(moments.second, lam**2 * XX + 2 * lam * Theta * XY + Theta**2 * YY)


@pytest.mark.parametrize("activation", ["relu", "abs", "leaky_relu:0.3"])
def test_first_order_is_that_of_the_layer_recursion(activation):
    widths = (10**6, 3 * 10**6, 2 * 10**6)
    net = fw.MLP(widths, activation, 0.0, (1.1, 1.7, 2.0, 1.3), 0.0, (0.4, 0.9, 1.0, 0.3))
    assert_close(ntk_moments(net, 0.7).ratio - 1, fw.depth_growth(net, 0.7).ntk_variance[-1], FIRST_ORDER)


@pytest.mark.parametrize(("activation", "slopes"), [("relu", Slopes(0.0, 1.0)), ("linear", Slopes(1.0, 1.0))])
def test_deep_and_wide_limit(activation, slopes):
    """The distance from the limit falls as 1/width; two widths remove it."""
    for beta in (0.1, 0.5, 1.0):
        narrow, wide = (
            ntk_moments(fw.MLP((n,) * round(beta * n), activation, lambda_b=0.0)).ratio for n in (1000, 2000)
        )
        assert abs(wide / ntk_ratio_limit(np.array(beta), slopes) - 1) < 0.01
        assert_close(2 * wide - narrow, ntk_ratio_limit(np.array(beta), slopes), FIRST_ORDER)


@pytest.mark.parametrize(
    ("net", "sentence"),
    [
        (fw.MLP((4,), "tanh", lambda_b=0.0), "'tanh' is not linear on either side of zero"),
        (fw.MLP((4,), "relu"), r"lambda_b = \(1.0, 1.0\) must be zero"),
        (fw.MLP((4,), "relu", 0.1, 2.0, 0.0), r"C_b = \(0.1, 0.1\)"),
    ],
)
def test_what_is_refused(net, sentence):
    with pytest.raises(ValueError, match=sentence):
        ntk_moments(net)
