"""One look for every figure: lines are theory, points with error bars are measured."""

import contextlib
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from finitewidth._base.characters import printable
from finitewidth._base.whole_files import whole_file

# Matplotlib is imported by what draws: the numbers of a claim need none.
if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
else:
    Axes = Axis = Figure = Any

Points = np.ndarray | Sequence[float] | Sequence[int]

PALETTE = ("#1f5f8b", "#d1603d", "#3a8f6a", "#8a5a9e", "#c2932b", "#5d6b77")
GREY = "#6b7580"
DPI = 150
ERROR_BARS = 2.0

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

_SETTINGS: dict[Any, Any] = {
    "font.family": "DejaVu Sans",
    "font.size": 9.5,
    "mathtext.fontset": "cm",
    "axes.titlesize": 10.5,
    "axes.titlelocation": "left",
    "axes.titlepad": 8,
    "axes.labelsize": 10.5,
    "axes.labelcolor": "#222222",
    "axes.edgecolor": "#8a929a",
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e8eb",
    "grid.linewidth": 0.7,
    "xtick.color": "#555c63",
    "ytick.color": "#555c63",
    "xtick.minor.size": 0,
    "ytick.minor.size": 0,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "figure.titlesize": 12,
    "figure.titleweight": "bold",
    "savefig.facecolor": "white",
}


@contextlib.contextmanager
def house_style() -> Iterator[None]:
    """Matplotlib settings of all figures, for as long as the block lasts."""
    import matplotlib as mpl
    from cycler import cycler

    settings: dict[Any, Any] = {**_SETTINGS, "axes.prop_cycle": cycler(color=PALETTE)}
    with mpl.rc_context(settings):
        yield


def name(text: str) -> str:
    """A name of a user as it stands in a figure, where a dollar begins no formula."""
    shown = re.sub("[\u2400-\u2421]", "\N{REPLACEMENT CHARACTER}", printable(text))
    return shown.replace("$", r"\$")


def panels(title: str, count: int = 1) -> tuple[Figure, list[Axes]]:
    """A titled figure with up to three panels side by side, and more below."""
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    engine = ConstrainedLayoutEngine(w_pad=0.08, h_pad=0.08)
    across = min(count, 3)
    down = -(-count // across)
    figure = Figure(figsize=(6.4, 4.3) if count == 1 else (5.2 * across, 4.3 * down), layout=engine)
    figure.suptitle(title, x=0.02, ha="left")
    return figure, [figure.add_subplot(down, across, place + 1) for place in range(count)]


def theory_line(axes: Axes, x: Points, y: Points, color: str, label: str | None = None, dash: str = "-"):
    """A predicted curve."""
    axes.plot(x, y, dash, color=color, lw=1.7, label=label, zorder=2)


def measured_points(axes: Axes, x: Points, value: Points, sem: Points, color: str, label: str | None = None):
    """Measured points with error bars of two standard errors, where there are any."""
    axes.errorbar(
        x,
        value,
        yerr=ERROR_BARS * np.asarray(sem) if np.any(sem) else None,
        fmt="o",
        ms=4.6,
        color=color,
        mfc="white",
        mew=1.3,
        elinewidth=1.1,
        capsize=2,
        label=label,
        zorder=3,
    )


def legend(
    axes: Axes,
    measured: str = "networks",
    theory: str = "theory",
    *,
    color: str = GREY,
    point_color: str = GREY,
    error_bars: bool = True,
    **options,
) -> None:
    """The curves by name, then what lines and points mean."""
    from matplotlib.lines import Line2D

    handles, labels = axes.get_legend_handles_labels()
    handles += [
        Line2D([], [], color=color, lw=1.7),
        Line2D([], [], color=point_color, marker="o", ls="", ms=4.6, mfc="white", mew=1.3),
    ]
    labels += [theory, measured + (", ±2 s.e." if error_bars else "")]
    axes.legend(handles, labels, **options)


def plain_ticks(axis: Axis, values: Points | None = None) -> None:
    """Label a logarithmic axis of less than two decades with numbers instead of powers of ten."""
    from matplotlib.ticker import FixedLocator, LogLocator, NullFormatter, StrMethodFormatter

    locator = LogLocator(subs=(1.0, 2.0, 5.0)) if values is None else FixedLocator(list(values))
    axis.set_major_locator(locator)
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))
    axis.set_minor_formatter(NullFormatter())


def power_ticks(axis: Axis) -> None:
    """Label a logarithmic axis of two decades or more with powers of ten, in characters of the font.

    Formulas and the invisible ticks between the powers take longer to set than all curves to draw.
    """
    from matplotlib.ticker import FuncFormatter, NullLocator

    low, high = axis.get_view_interval()
    if high >= 100 * low:
        axis.set_major_formatter(FuncFormatter(_power_of_ten))
        axis.set_minor_locator(NullLocator())


def _power_of_ten(value: float, place: int | None = None) -> str:
    return "10" + f"{np.log10(value):.0f}".translate(_RAISED)


def whole_ticks(axis: Axis) -> None:
    """Label an axis that counts with whole numbers."""
    from matplotlib.ticker import MaxNLocator

    axis.set_major_locator(MaxNLocator(integer=True))


def save(figure: Figure, path: Path) -> None:
    """Write a PNG; the name appears only once the file is complete."""
    with whole_file(path) as file:
        figure.savefig(file, dpi=DPI, format="png")
