"""Growth with depth at one input: closed forms, dense tensors, and the laws of the universality classes."""

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.statistics.exact.paths import ntk_moments
from tolerances import CLOSED_FORM, CRITICAL_POINT, FIRST_ORDER, TENSORS_OF_SERIES, assert_close

TENSORS = ("K", "Theta", "G1", "V", "H1", "D", "F", "A", "B")


@pytest.mark.parametrize(("activation", "slope"), [("relu", 5.0), ("linear", 2.0), ("abs", 2.0)])
def test_vertex_of_scale_invariant_networks(activation, slope):
    growth = fw.depth_growth(fw.MLP((50,) * 5, activation), 0.7)
    assert_close(growth.V, slope * np.arange(6) * growth.K**2, CLOSED_FORM)
    assert_close(fw.vertex_slope(activation), slope, CLOSED_FORM)
    assert_close(growth.G1, np.zeros(6), scale=1e-12, tolerance=1.0)


def test_excess_kurtosis_of_relu_is_the_first_order_of_the_path_count():
    """E[z^4] = 3 K^2 prod (1 + 5/n) exactly."""
    widths = (200, 300, 400)
    growth = fw.depth_growth(fw.MLP(widths, "relu"))
    exact = 3 * (np.prod([1 + 5 / n for n in widths]) - 1)
    assert abs(growth.excess_kurtosis[-1] / exact - 1) < 5 * sum(1 / n for n in widths)
    assert_close(growth.excess_kurtosis[-1], 15 * sum(1 / n for n in widths), CLOSED_FORM)


@pytest.mark.parametrize("shape", [(1,), (1, 2), (3, 1, 2), (1,) * 10])
def test_ntk_variance_of_relu_is_the_first_order_of_an_exact_law(shape):
    widths = tuple(10**6 * w for w in shape)
    growth = fw.depth_growth(fw.MLP(widths, "relu", lambda_b=0.0))
    assert_close(
        growth.ntk_variance[-1], ntk_moments(fw.MLP(widths, "relu", lambda_b=0.0)).ratio - 1, FIRST_ORDER
    )


@pytest.mark.parametrize("activation", ["tanh", "gelu", "relu"])
def test_one_input_of_the_dense_tensors(activation):
    net = fw.MLP(
        (30, 20, 40), activation,
        (0.1, 0.2, 0.1, 0.0), (1.3, 1.5, 1.7, 1.2), (0.3, 0.2, 0.1, 0.4), (0.7, 0.5, 0.8, 1.1),
    )  # fmt: skip
    x = np.array([[0.9, 0.5]])
    tensors, growth = fw.corrections(net, x), fw.depth_growth(net, float(np.mean(x**2)))
    for name in TENSORS:
        dense = np.asarray(getattr(tensors, name)).item()
        assert_close(dense, getattr(growth, name)[-1], TENSORS_OF_SERIES, scale=max(abs(dense), 1e-3))


@pytest.mark.parametrize("activation", ["tanh", "sin", "elu"])
def test_vanishing_variance_has_a_universal_vertex(activation):
    """V/K^2 = (2/3) l, up to the logarithms of the approach to K* = 0."""
    layers = 1000
    growth = fw.depth_growth(fw.MLP((10,) * layers, activation))
    slope = (growth.V / growth.K**2)[-1] / layers
    assert abs(slope - fw.vertex_slope(activation)) < 1.5 * np.log(layers) / layers


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_half_stable_vertex_at_the_fixed_point(activation):
    point = fw.criticality(activation)
    square = (point.K_star - point.C_b) / point.C_W
    growth = fw.depth_growth(fw.MLP((10,) * 8, activation), square)
    assert_close(growth.V / growth.K**2, fw.vertex_slope(activation) * np.arange(9), CRITICAL_POINT)


def test_no_critical_point_no_slope():
    assert np.isnan(fw.vertex_slope("sigmoid"))


def test_a_jump_is_refused():
    with pytest.raises(ValueError, match="activation 'step' jumps by 1 at zero"):
        fw.depth_growth(fw.MLP((4,), "step", 0.0, 1.0))


@pytest.mark.parametrize("square", [0.0, -1.0, np.inf])
def test_square_must_be_positive(square):
    with pytest.raises(ValueError, match="square must be finite and positive"):
        fw.depth_growth(fw.MLP((4,), "relu"), square)
