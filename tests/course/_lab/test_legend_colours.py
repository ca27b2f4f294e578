"""A legend shows the colours of what is drawn."""

from types import SimpleNamespace

import numpy as np
import pytest
from matplotlib.colors import to_hex

from finitewidth.course._lab.comparison import absolute_error, compare_each
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.report import style


@pytest.mark.parametrize("named", [True, False])
def test_one_curve_has_the_colours_of_its_legend(named):
    _, (axes,) = style.panels("one curve")
    values = np.array([[1.0, 2.0, 4.0]])
    setting = SimpleNamespace(depths=(1, 2, 3), widths=(64,))
    (check,) = compare_each({"a": "a check"}, absolute_error, 1.0)(
        setting, {"a": values}, {"a": exact(values)}
    )
    Curves("depths", "depth", "widths" if named else None, "width %d").draw(axes, check, setting)
    line, points = axes.get_lines()[0], axes.containers[0].lines[0]
    legend = axes.get_legend()
    keys = dict(zip([t.get_text() for t in legend.get_texts()], legend.get_lines(), strict=True))
    assert to_hex(keys["predicted"].get_color()) == to_hex(line.get_color())
    assert to_hex(keys["measured"].get_color()) == to_hex(points.get_color())
