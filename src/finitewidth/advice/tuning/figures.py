"""Pictures of the theory: phase diagrams, and what an initialisation does to signals."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, TwoSlopeNorm
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from finitewidth._base.whole_files import whole_file
from finitewidth.advice.tuning.advice import Tuning
from finitewidth.architecture.critical_point import critical_point
from finitewidth.report import style
from finitewidth.statistics.depth.phases import PhaseDiagram

FORMATS = ("png", "pdf", "svg")

_ORDERED, _CHAOTIC, _INK = "#2f6f9f", "#d1603d", "#222222"
_PHASES = LinearSegmentedColormap.from_list("phases", [_ORDERED, "#a9c9de", "#fbfaf7", "#efbfab", _CHAOTIC])
_CURVES = 4
# Below this a signal or a gradient is gone, and an axis that goes on tells nothing more.
_SMALLEST_SHOWN = 1e-30
# The length is infinite on the critical line; how high a grid point climbs is an accident of the grid.
_LONGEST_SHOWN = 1e3


def phase_figure(diagram: PhaseDiagram) -> Figure:
    """The two phases with the critical point between them, and how deep a signal gets.

    Left: the perpendicular susceptibility at the fixed point, with the line where it is one. Right:
    the correlation length along a few rows of the diagram.
    """
    with style.house_style():
        figure, (plane, lengths) = style.panels(f"Phases of {diagram.activation.name}", 2)
        _draw_plane(figure, plane, diagram)
        _draw_lengths(lengths, diagram)
    return figure


def _draw_plane(figure: Figure, axes: Axes, diagram: PhaseDiagram) -> None:
    chi = diagram.chi_perpendicular
    below, above = (float(np.clip(reach, 0.1, 1.0)) for reach in (1 - chi.min(), chi.max() - 1))
    norm = TwoSlopeNorm(1.0, vmin=1 - below, vmax=1 + above)
    mesh = axes.pcolormesh(
        diagram.C_W, diagram.C_b, chi, cmap=_PHASES, norm=norm, shading="gouraud", rasterized=True
    )
    if chi.min() < 1 < chi.max():
        axes.contour(diagram.C_W, diagram.C_b, chi, levels=[1.0], colors=_INK, linewidths=1.4)
    point = critical_point(diagram.activation)
    if point.exists and _inside(diagram.C_W, point.C_W) and _inside(diagram.C_b, point.C_b):
        axes.plot(
            point.C_W, point.C_b, "o", ms=8, mfc="white", mec=_INK, mew=1.6, zorder=5, clip_on=False,
            label=f"critical point: $C_W={point.C_W:.3g}$, $C_b={point.C_b:.3g}$",
        )  # fmt: skip
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), handletextpad=0.2)
    phase = diagram.phase
    biases, weights = np.meshgrid(diagram.C_b, diagram.C_W, indexing="ij")
    for name in ("ordered", "chaotic"):
        where = phase == name
        if where.mean() > 0.05:
            axes.text(
                np.median(weights[where]), np.median(biases[where]), name,
                ha="center", va="center", color=_INK, fontsize=11.5,
            )  # fmt: skip
    axes.grid(visible=False)
    axes.set(
        xlabel="weight variance $C_W$", ylabel="bias variance $C_b$", title=r"$\chi_\perp$ at the fixed point"
    )
    ticks = [*np.linspace(1 - below, 1, 4), *np.linspace(1, 1 + above, 4)[1:]]
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, ticks=ticks, format="%.2f")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]


def _draw_lengths(axes: Axes, diagram: PhaseDiagram) -> None:
    rows = np.unique(np.linspace(0, len(diagram.C_b) - 1, _CURVES).round().astype(int))
    length = diagram.correlation_length
    if len(rows) > 1 and np.allclose(length, length[0]):
        style.theory_line(axes, diagram.C_W, length[0], style.PALETTE[0], "any $C_b$")
        rows = rows[:0]
    for color, row in zip(style.PALETTE, rows, strict=False):
        style.theory_line(axes, diagram.C_W, length[row], color, f"$C_b={diagram.C_b[row]:.2g}$")
    longest = length[np.isfinite(length)].max(initial=1.0)
    axes.set(
        yscale="log",
        ylim=(0.5 * length.min(), min(2 * longest, _LONGEST_SHOWN)),
        xlabel="weight variance $C_W$",
        ylabel=r"layers $\xi_\perp = 1/|\log\chi_\perp|$",
        title="How deep a difference of inputs gets",
    )
    axes.legend()


def _inside(axis: np.ndarray, value: float) -> bool:
    return bool(axis.min() <= value <= axis.max())


def tuning_figure(advice: Tuning) -> Figure:
    """Signals on their way forwards and gradients on their way back, for each initialisation."""
    net = advice.net
    with style.house_style():
        width = f", width {net.hidden[0]}" if net.hidden else ""
        figure, (forward, backward) = style.panels(f"{net.activation.name}, depth {net.depth}{width}", 2)
        layers = np.arange(1, net.depth + 1)
        for color, (name, signal) in zip(style.PALETTE, advice.signals.items(), strict=False):
            label = f"{name}\n(orthogonal inputs leave with correlation {signal.correlation:.3f})"
            for axes, values in ((forward, signal.variance), (backward, signal.gradient)):
                shown = np.where(values >= _SMALLEST_SHOWN, values, np.nan)
                style.theory_line(axes, layers, shown, color, label)
                axes.plot(layers[-1:], shown[-1:], "o", ms=4, color=color)
        forward.set(title="Signals: variance $K$ of a preactivation", xlabel="layer", ylabel="$K$")
        backward.set(title="Gradients: squared, one at the output", xlabel="layer", ylabel="squared gradient")
        for axes in (forward, backward):
            axes.set_yscale("log")
            axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.legend(*forward.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8.5)
    return figure


def picture_format(path: Path) -> str:
    """The format that the ending of a file name asks for."""
    kind = path.suffix.lower().removeprefix(".")
    if kind not in FORMATS:
        raise ValueError(f"a picture must end in .{', .'.join(FORMATS)}, got {path.name!r}.")
    return kind


def save_figure(figure: Figure, path: Path | str) -> None:
    """Write a picture as .png, .pdf or .svg; the name appears only once the file is complete."""
    path = Path(path)
    kind = picture_format(path)
    with whole_file(path) as file, style.house_style():
        figure.savefig(file, dpi=style.DPI, format=kind)
