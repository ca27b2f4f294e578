"""Figures show the numbers of the theory objects, and files appear only when they are complete."""

import matplotlib.image
import numpy as np
import pytest

import finitewidth as fw
from finitewidth.advice.tuning.figures import phase_figure, save_figure, tuning_figure
from finitewidth.report import style


def curves(axes):
    """The labelled lines of a panel, by label."""
    return {line.get_label(): line for line in axes.get_lines() if not line.get_label().startswith("_")}


@pytest.fixture(scope="module")
def diagram():
    return fw.phase_diagram("tanh", C_W=np.linspace(0.5, 2.5, 9), C_b=np.linspace(0.0, 0.3, 4))


@pytest.fixture(scope="module")
def advice():
    return fw.tune("gelu", depth=5, width=32)


@pytest.mark.parametrize(
    ("high", "label"), [(1e3, "10⁻²"), (0.5, "$\\mathdefault{10^{-2}}$")], ids=["decades", "less"]
)
def test_a_long_logarithmic_axis_has_plain_powers_of_ten(high, label):
    _, (axes,) = style.panels("powers")
    axes.set(xscale="log", xlim=(0.01, high))
    style.power_ticks(axes.xaxis)
    assert axes.xaxis.get_major_formatter()(0.01) == label


class TestPhaseFigure:
    def test_plane_shows_the_perpendicular_susceptibility(self, diagram):
        plane = phase_figure(diagram).axes[0]
        (mesh,) = [c for c in plane.collections if c.get_array() is not None and c.get_array().size > 1]
        np.testing.assert_array_equal(np.ravel(mesh.get_array()), diagram.chi_perpendicular.ravel())

    def test_critical_point_is_marked(self, diagram):
        plane = phase_figure(diagram).axes[0]
        (point,) = curves(plane).values()
        assert (point.get_xdata()[0], point.get_ydata()[0]) == (1.0, 0.0)

    def test_point_outside_the_grid_is_not_marked(self):
        diagram = fw.phase_diagram("tanh", C_W=np.linspace(2.0, 2.5, 3), C_b=np.linspace(0.0, 0.3, 3))
        assert not curves(phase_figure(diagram).axes[0])

    def test_boundary_lies_where_the_susceptibility_crosses_one(self, diagram):
        plane = phase_figure(diagram).axes[0]
        (line,) = [c for c in plane.collections if c.get_array() is not None and c.get_array().size == 1]
        vertices = np.concatenate([path.vertices for path in line.get_paths()])
        for C_W, C_b in vertices[::2]:
            column = np.array([np.interp(C_W, diagram.C_W, row) for row in diagram.chi_perpendicular])
            assert abs(np.interp(C_b, diagram.C_b, column) - 1) < 0.02

    def test_rows_of_correlation_lengths(self, diagram):
        lengths = phase_figure(diagram).axes[1]
        shown = curves(lengths)
        assert list(shown) == [f"$C_b={C_b:.2g}$" for C_b in diagram.C_b]
        for line, row in zip(shown.values(), diagram.correlation_length, strict=True):
            np.testing.assert_array_equal(line.get_ydata(), row)

    def test_scale_invariant_rows_are_one_curve(self):
        diagram = fw.phase_diagram("relu", C_W=np.linspace(1.1, 2.8, 8), C_b=np.linspace(0.0, 0.3, 4))
        assert list(curves(phase_figure(diagram).axes[1])) == ["any $C_b$"]

    def test_activation_without_critical_point(self):
        diagram = fw.phase_diagram("softplus", C_W=np.linspace(0.5, 1.5, 4), C_b=np.linspace(0.0, 0.3, 3))
        assert not curves(phase_figure(diagram).axes[0])


class TestTuningFigure:
    def test_signals_and_gradients_of_every_initialisation(self, advice):
        forward, backward = tuning_figure(advice).axes
        for axes, field in ((forward, "variance"), (backward, "gradient")):
            shown = curves(axes)
            assert len(shown) == len(advice.signals) == 3
            for (label, line), (name, signal) in zip(shown.items(), advice.signals.items(), strict=True):
                assert label.startswith(name)
                assert f"{signal.correlation:.3f}" in label
                np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 6))
                np.testing.assert_array_equal(line.get_ydata(), getattr(signal, field))
            assert axes.get_yscale() == "log"

    def test_network_without_hidden_layers(self):
        figure = tuning_figure(fw.tune("tanh", depth=1, width=8))
        assert figure.get_suptitle() == "tanh, depth 1"


class TestSaveFigure:
    @pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
    def test_writes_the_kind_that_the_name_says(self, advice, tmp_path, suffix):
        path = tmp_path / f"picture.{suffix}"
        save_figure(tuning_figure(advice), path)
        magic = {"png": b"\x89PNG", "pdf": b"%PDF", "svg": b"<?xml"}[suffix]
        assert path.read_bytes().startswith(magic)
        assert [p.name for p in tmp_path.iterdir()] == [path.name]

    def test_picture_is_not_blank(self, diagram, tmp_path):
        save_figure(phase_figure(diagram), tmp_path / "phases.png")
        pixels = matplotlib.image.imread(tmp_path / "phases.png")
        assert pixels.shape[1] > 1000
        assert pixels[..., :3].std() > 0.05

    def test_refuses_other_kinds(self, advice, tmp_path):
        with pytest.raises(ValueError, match=r"must end in \.png, \.pdf, \.svg, got 'picture\.jpeg2'"):
            save_figure(tuning_figure(advice), tmp_path / "picture.jpeg2")
        assert not list(tmp_path.iterdir())

    def test_a_failed_write_leaves_nothing(self, advice, tmp_path):
        figure = tuning_figure(advice)
        figure.suptitle("$\\unknown$")
        with pytest.raises(ValueError, match="unknown"):
            save_figure(figure, tmp_path / "picture.png")
        assert not list(tmp_path.iterdir())
