"""Pictures of linear regions: the cells of a plane, the pieces on a line, their number during training."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PolyCollection
from matplotlib.colors import CenteredNorm, LinearSegmentedColormap, hsv_to_rgb
from matplotlib.figure import Figure
from matplotlib.tri import Triangulation

from finitewidth.measure.regions.line import LineRegions
from finitewidth.measure.regions.plane import PlaneRegions
from finitewidth.measure.regions.training import RegionHistory
from finitewidth.report import style

Colour = Literal["region", "output"]
_INK = "#222222"
_DIVERGING = LinearSegmentedColormap.from_list(
    "output", ["#1f5f8b", "#a9c9de", "#fbfaf7", "#efbfab", "#d1603d"]
)
# Edges of very many cells would be all that is seen.
_THIN, _THINNEST, _MANY = 0.5, 0.12, 3000


def plane_figure(
    found: PlaneRegions, colour: Colour = "region", output: int = 0, points: np.ndarray | None = None
) -> Figure:
    """The cells of a plane, each in a colour of its own, or one output of the network with their edges.

    `points` (points, 2) in the coordinates of the plane are marked, such as the data it goes through.
    """
    if colour not in ("region", "output"):
        raise ValueError(f"colour must be 'region' or 'output', got {colour!r}.")
    outputs = found.offsets.shape[1]
    if not 0 <= output < outputs:
        raise ValueError(f"output must be from 0 to {outputs - 1}, got {output}.")
    with style.house_style():
        figure, (axes,) = style.panels(f"{found.number:,} cells, one for each activation pattern")
        figure.set_size_inches(6.0 if colour == "region" else 6.8, 6.2)
        if colour == "region":
            colours = _own_colours(found.patterns)
            cells = [found.cell(number) for number in range(found.number)]
            axes.add_collection(
                PolyCollection(cells, facecolors=colours, edgecolors="white", linewidths=_width(found))
            )
        else:
            _draw_output(figure, axes, found, output)
        if points is not None:
            axes.plot(*points.T, "o", ms=6, mfc="white", mec=_INK, mew=1.5, zorder=5)
        low, high = found.plane.corners.min(axis=0), found.plane.corners.max(axis=0)
        axes.set(
            xlim=(low[0], high[0]), ylim=(low[1], high[1]), xlabel="$u_1$", ylabel="$u_2$", aspect="equal"
        )
        axes.grid(visible=False)
    return figure


def line_figure(found: LineRegions, output: int = 0) -> Figure:
    """One output along a line, with every breakpoint."""
    with style.house_style():
        kinks = int(found.visible.sum())
        figure, (axes,) = style.panels(f"{found.pieces:,} pieces, {len(found.breakpoints):,} breakpoints")
        t = found.breakpoints
        inner = np.array([0.0, 1.0]) if not len(t) else np.array([min(0.0, t[0]), max(1.0, t[-1])])
        ends = np.concatenate([inner[:1], t, inner[1:]])
        slopes, offsets = found.slopes[:, output], found.offsets[:, output]
        values = np.append(slopes * ends[:-1] + offsets, slopes[-1] * ends[-1] + offsets[-1])
        style.theory_line(axes, ends, values, style.PALETTE[0], "output")
        marked = np.flatnonzero(found.visible) + 1
        size = 4.5 if kinks < 60 else 2.0
        axes.plot(
            ends[marked], values[marked], "o", ms=size, color=style.PALETTE[1], label="kinks of the output"
        )
        axes.set(xlabel="$t$", ylabel=f"output {output}")
        axes.legend()
    return figure


def history_figure(history: RegionHistory, steps: Sequence[float | int] | np.ndarray) -> Figure:
    """The number of regions during training."""
    if len(steps) != len(history.cells):
        raise ValueError(f"there are {len(steps)} steps for {len(history.cells)} checkpoints.")
    with style.house_style():
        figure, (axes,) = style.panels("Linear regions during training")
        axes.plot(steps, history.cells, "-o", ms=4.5, color=style.PALETTE[0])
        axes.set(xlabel="step", ylabel="cells in the plane", ylim=(0, 1.1 * history.cells.max()))
    return figure


def _own_colours(patterns: np.ndarray) -> np.ndarray:
    """Soft colours that follow from the patterns, so that a pattern has one colour in every picture."""
    weights = np.random.default_rng(0).random((2, max(patterns.shape[1], 1)))[:, : patterns.shape[1]]
    hue, shade = np.mod(weights @ (patterns.T + 0.0) * 7.31, 1.0)
    return hsv_to_rgb(np.stack([hue, 0.15 + 0.3 * shade, 0.8 + 0.18 * np.mod(5 * shade, 1.0)], axis=1))


def _draw_output(figure: Figure, axes: Axes, found: PlaneRegions, output: int) -> None:
    """Exact within every cell: each is a fan of triangles with its own values at the corners."""
    cells, most = found.corners.shape[:2]
    values = np.einsum("cvu,cu->cv", found.corners, found.slopes[:, output]) + found.offsets[:, output, None]
    corner = np.arange(cells * most).reshape(cells, most)
    fans = [
        np.stack([corner[:, 0], corner[:, place], corner[:, place + 1]], axis=1)[found.counts > place + 1]
        for place in range(1, most - 1)
    ]
    x, y = found.corners.reshape(-1, 2).T
    grid = Triangulation(x, y, np.concatenate(fans))
    mesh = axes.tripcolor(
        grid, values.reshape(-1), shading="gouraud", cmap=_DIVERGING, norm=CenteredNorm(), rasterized=True
    )
    edges = np.stack([found.corners, np.roll(found.corners, -1, axis=1)], axis=2).reshape(-1, 2, 2)
    axes.add_collection(LineCollection(list(edges), colors=_INK, linewidths=0.6 * _width(found), alpha=0.6))
    bar = figure.colorbar(mesh, ax=axes, pad=0.02, label=f"output {output}")
    bar.outline.set_visible(False)  # pyright: ignore[reportCallIssue]


def _width(found: PlaneRegions) -> float:
    return _THIN if found.number < _MANY else _THINNEST
