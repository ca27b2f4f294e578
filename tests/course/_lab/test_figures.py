"""Pictures of what checks compare."""

from dataclasses import dataclass

import numpy as np
import pytest

from finitewidth.course._lab.comparison import absolute_error, z_score
from finitewidth.course._lab.estimate import Estimate, exact
from finitewidth.course._lab.figures import Curves, along, entries, power_laws


@dataclass(frozen=True)
class Setting:
    widths: tuple[int, ...] = (10, 100, 1000)
    depth: int = 4
    names: tuple[str, ...] = ("narrow", "wide")


BY_WIDTH = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
CHECKS = [
    z_score("by width", BY_WIDTH, Estimate(BY_WIDTH + 0.1, np.full((2, 3), 0.2))),
    absolute_error("by layer", np.arange(4.0), np.arange(4.0) + 0.5, 1.0),
    absolute_error("alone", 2.0, 2.5, 1.0),
]


def lines(axes):
    """Predicted lines: as long as their x; legends and error bars are not among them."""
    return [line for line in axes.lines if line.get_linestyle() == "-" and len(line.get_xdata()) > 1]


def points(axes):
    return [line for line in axes.lines if line.get_marker() == "o" and len(line.get_xdata())]


def test_curves_are_drawn_along_their_attribute_and_the_rest_is_left_out():
    curves = Curves("widths", "width", "names", "%s layers")
    (axes,) = along("title", [curves], CHECKS, Setting()).axes
    assert axes.get_title() == "by width"
    assert [line.get_label() for line in lines(axes)] == ["narrow layers", "wide layers"]
    for drawn, row in zip(lines(axes), BY_WIDTH, strict=True):
        np.testing.assert_array_equal(drawn.get_xdata(), Setting().widths)
        np.testing.assert_array_equal(drawn.get_ydata(), row)
    np.testing.assert_allclose(points(axes)[1].get_ydata(), BY_WIDTH[1] + 0.1)
    assert axes.get_xscale() == "log"


def test_several_curves_share_the_checks_and_a_number_counts_layers():
    figure = along("title", [Curves("depth", "layer"), Curves("widths", "width")], CHECKS, Setting())
    assert [axes.get_xlabel() for axes in figure.axes] == ["width", "layer"]
    np.testing.assert_array_equal(lines(figure.axes[1])[0].get_xdata(), [1, 2, 3, 4])
    assert figure.axes[1].get_xscale() == "linear"


def test_small_differences_are_not_blown_up():
    level = absolute_error("level", np.full(4, 2.0), np.full(4, 2.0) + 1e-6, 1.0)
    (axes,) = along("title", [Curves("depth", "layer")], [level], Setting()).axes
    low, high = axes.get_ylim()
    assert (low, high) == pytest.approx((1.9, 2.1))


def test_an_axis_may_come_first():
    check = absolute_error("by width", BY_WIDTH.T, BY_WIDTH.T, 1.0)
    (axes,) = along("title", [Curves("widths", "width", along=0)], [check], Setting()).axes
    np.testing.assert_array_equal(lines(axes)[1].get_ydata(), BY_WIDTH[1])


def test_entries_of_several_checks_are_in_units_of_their_largest():
    (axes,) = entries("title", CHECKS).axes
    by_width, by_layer, single = points(axes)
    np.testing.assert_allclose(by_width.get_xdata(), np.arange(1, 7) / 6)
    np.testing.assert_allclose(by_layer.get_ydata(), (np.arange(4) + 0.5) / 3)
    np.testing.assert_allclose(single.get_ydata(), [1.25])


def test_a_power_law_goes_through_the_last_point():
    x = np.array([1.0, 2.0, 4.0])
    (axes,) = power_laws("title", x, {"law": (exact(np.array([1.0, 3.0, 8.0])), 1.5)}, "x", "y").axes
    assert lines(axes)[0].get_ydata() == pytest.approx(8.0 * (x / 4) ** 1.5)
