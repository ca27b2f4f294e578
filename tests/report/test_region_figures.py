"""Pictures of linear regions show what was counted."""

import numpy as np
import pytest
from matplotlib.collections import PolyCollection, TriMesh

from finitewidth.course.linear_regions.networks.relu_regions import relu_program
from finitewidth.measure import regions
from finitewidth.report.region_figures import history_figure, line_figure, plane_figure

LINES = relu_program(
    [(np.array([[1.0, 0.0], [0.0, 1.0]]), np.array([0.5, 0.0])), (np.ones((1, 2)), np.zeros(1))]
)


@pytest.fixture(scope="module")
def found():
    return regions.plane_regions(LINES, regions.as_plane([0.0, 0.0], np.eye(2), 1.0))


def test_cells_by_region(found):
    axes = plane_figure(found, points=np.zeros((1, 2))).axes[0]
    (cells,) = [part for part in axes.collections if isinstance(part, PolyCollection)]
    assert len(cells.get_paths()) == 4
    assert len(np.unique(cells.get_facecolors(), axis=0)) == 4
    assert axes.get_xlim() == axes.get_ylim() == (-1, 1)


def test_an_output_is_exact_at_every_corner(found):
    axes = plane_figure(found, "output").axes[0]
    (mesh,) = [part for part in axes.collections if isinstance(part, TriMesh)]
    grid = mesh._triangulation
    expected = np.maximum(grid.x + 0.5, 0) + np.maximum(grid.y, 0)
    np.testing.assert_allclose(mesh.get_array(), expected, atol=1e-14)
    corners = np.stack([grid.x, grid.y], axis=1)[grid.triangles]
    sides = corners[:, 1:] - corners[:, :1]
    total = np.abs(sides[:, 0, 0] * sides[:, 1, 1] - sides[:, 0, 1] * sides[:, 1, 0]).sum() / 2
    assert total == pytest.approx(4)


def test_a_line_bends_where_the_output_does():
    axes = line_figure(regions.line_regions(LINES, [-1.0, -1.0], [1.0, 1.0])).axes[0]
    curve, kinks = axes.lines
    np.testing.assert_allclose(kinks.get_xdata(), [0.25, 0.5])
    np.testing.assert_allclose(kinks.get_ydata(), [0.0, 0.5], atol=1e-14)
    assert curve.get_ydata()[-1] == pytest.approx(2.5)


def test_numbers_during_training():
    history = regions.RegionHistory(np.array([3, 5]), np.array([0.1, 0.2]))
    np.testing.assert_array_equal(history_figure(history, [0, 10]).axes[0].lines[0].get_ydata(), [3, 5])
    with pytest.raises(ValueError, match="3 steps for 2 checkpoints"):
        history_figure(history, [0, 1, 2])


def test_wrong_choices(found):
    with pytest.raises(ValueError, match="output must be from 0 to 0, got 1"):
        plane_figure(found, "output", 1)
