"""Pictures of what checks compare: predicted lines or a diagonal, and measured points."""

import textwrap
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from finitewidth.course._lab.claim import Check
from finitewidth.course._lab.estimate import Estimate
from finitewidth.report import style
from finitewidth.report.style import Axes, Figure

# What is drawn at most: points of a curve, curves of a panel, entries of a comparison, panels of a figure.
_POINTS = 16
_CURVES = 12
_ENTRIES = 60
_PANELS = 6
# Differences below this part of the numbers themselves are not blown up.
_LEVEL = 0.05


@dataclass(frozen=True)
class Curves:
    """Comparisons as curves along an attribute of the setting.

    Attributes
    ----------
    x, xlabel
        Attribute of the setting, or a function of it, against which the arrays are drawn, and its name; a
        number n stands for 1 to n.
    rows, label
        Attribute of the setting, or a function of it, that tells the other entries of the arrays apart, and
        how each is called: a format for its value.
    along
        The axis of the arrays that belongs to x.
    """

    x: str | Callable[[Any], Any]
    xlabel: str
    rows: str | Callable[[Any], Any] | None = None
    label: str = "%s"
    along: int = -1

    def draw(self, axes: Axes, check: Check, setting: Any) -> None:
        """One comparison along x."""
        assert check.compared is not None
        (line, points), x = check.compared, _of(setting, self.x)
        lines, value, sem = (_rows(a, self.along) for a in (line, points.value, points.sem))
        labels = [] if self.rows is None else [self.label % row for row in _of(setting, self.rows)]
        some = slice(None, None, -(-len(lines) // _CURVES))
        labels = labels[some] if len(labels) == len(lines) else []
        draw_curves(axes, x, lines[some], Estimate(value[some], sem[some]), labels)
        finish(axes, x, lines, xlabel=self.xlabel, title=check.name)
        # As in `draw_curves`: points have the colour of their line where it has a name.
        dots = style.PALETTE[0 if labels else 1]
        colors = {"color": style.PALETTE[0], "point_color": dots} if len(lines) == 1 else {}
        style.legend(axes, "measured", "predicted", error_bars=bool(sem.any()), **colors)

    def fits(self, check: Check, setting: Any) -> bool:
        """Whether a comparison has an axis that belongs to x."""
        shape = check.compared[0].shape if check.compared else ()
        return -len(shape) <= self.along < len(shape) and shape[self.along] == len(_of(setting, self.x))


def along(title: str, curves: Sequence[Curves], checks: Sequence[Check], setting: Any) -> Figure:
    """A panel for each of the first comparisons, drawn along the first x that fits."""
    fitting = [(check, [c for c in curves if c.fits(check, setting)]) for check in checks]
    shown = [(check, found[0]) for check, found in fitting if found][:_PANELS]
    picture, panels = style.panels(_wrapped(title, len(shown)), len(shown))
    for axes, (check, found) in zip(panels, shown, strict=True):
        found.draw(axes, check, setting)
    return picture


def entries(title: str, checks: Sequence[Check]) -> Figure:
    """Measured against predicted, entry by entry, several quantities in units of their largest entry."""
    shown = [(check.name, *check.compared) for check in checks if check.compared]
    picture, (axes,) = style.panels(_wrapped(title, 1))
    for i, (name, predicted, measured) in enumerate(shown):
        scale = np.abs(predicted).max(initial=0.0) if len(shown) > 1 else 1.0
        scale = scale or np.abs(measured.value).max(initial=0.0) or 1.0
        order = np.argsort(predicted, axis=None)
        order = order[:: -(-len(order) // _ENTRIES)]
        x, value, sem = (np.ravel(a)[order] / scale for a in (predicted, measured.value, measured.sem))
        style.measured_points(axes, x, value, sem, style.PALETTE[i % len(style.PALETTE)], name)
    axes.axline((0, 0), slope=1, color=style.GREY, lw=1.2, zorder=0)
    unit = " / largest" if len(shown) > 1 else ""
    bars = ", ±2 s.e." if any(np.any(measured.sem) for _, _, measured in shown) else ""
    axes.set(xlabel=f"predicted{unit}", ylabel=f"measured{unit}{bars}")
    axes.legend(fontsize=8, ncols=1 + len(shown) // 8)
    return picture


def layer_names(architectures: Sequence[tuple[int, ...]]) -> list[str]:
    """Hidden widths as text."""
    return [" – ".join(map(str, hidden)) for hidden in architectures]


def draw_curves(axes: Axes, x: Any, lines: np.ndarray, points: Estimate, labels: Sequence[str] = ()) -> None:
    """One predicted line and its measured points for every row."""
    places = _places(x)
    some = np.arange(len(places))
    if len(places) > _POINTS:
        spread = np.geomspace if places.min() > 0 and _even(np.log(places)) else np.linspace
        some = np.unique(spread(1, len(places), _POINTS).round().astype(int)) - 1
    for i, line in enumerate(lines):
        color = style.PALETTE[i % len(style.PALETTE)]
        dots = style.PALETTE[1] if len(lines) == 1 and not labels else color
        style.theory_line(axes, places, line, color, labels[i] if i < len(labels) else None)
        style.measured_points(axes, places[some], points.value[i, some], points.sem[i, some], dots)


def power_laws(
    title: str,
    x: Any,
    laws: Mapping[str, tuple[Estimate, Any]],
    xlabel: str,
    ylabel: str,
    measured: str = "networks",
) -> Figure:
    """Measured points by name, each with the line of a predicted power through the last of them."""
    picture, (axes,) = style.panels(_wrapped(title, 1))
    x, noisy = np.asarray(x, float), False
    for (label, (points, power)), color in zip(laws.items(), style.PALETTE, strict=False):
        style.theory_line(axes, x, points.value[-1] * (x / x[-1]) ** float(power), color, label)
        style.measured_points(axes, x, points.value, points.sem, color)
        noisy |= bool(np.any(points.sem))
    axes.set(xscale="log", yscale="log", xlabel=xlabel, ylabel=ylabel)
    if len(x) <= 7:
        style.plain_ticks(axes.xaxis, x.tolist())
    low, high = axes.get_ylim()
    if high < 100 * low:
        style.plain_ticks(axes.yaxis)
    style.legend(axes, measured, "predicted power", error_bars=noisy)
    return picture


def finish(axes: Axes, x: Any, lines: np.ndarray, **settings: Any) -> None:
    """Settings of the axes, with scales and ticks that suit what is drawn."""
    places = _places(x)
    if isinstance(x[0], str):
        long = sum(map(len, x)) > 60
        axes.set_xticks(places, list(x), rotation=20 if long else 0, ha="right" if long else "center")
    elif _even(np.log(places[places > 0])) and places.max() > 3 * places[places > 0].min():
        axes.set_xscale("symlog" if places.min() <= 0 else "log")
        if len(x) <= 7:
            style.plain_ticks(axes.xaxis, x)
    elif np.array_equal(places, places.round()):
        style.whole_ticks(axes.xaxis)
    low, high = np.min(lines), np.max(lines)
    bottom, top = axes.get_ylim()
    if top - bottom < _LEVEL * max(abs(low), abs(high)):
        middle = (low + high) / 2
        axes.set_ylim(middle - _LEVEL * abs(middle), middle + _LEVEL * abs(middle))
    if 0 < 10 * low < high:
        axes.set_yscale("log")
        # Noise may reach below anything that is predicted.
        axes.set_ylim(bottom=max(axes.get_ylim()[0], low / 10))
        if high < 100 * low:
            style.plain_ticks(axes.yaxis)
    axes.set(**settings)


def _of(setting: Any, attribute: str | Callable[[Any], Any]) -> Any:
    found = getattr(setting, attribute) if isinstance(attribute, str) else attribute(setting)
    return np.arange(1, found + 1) if isinstance(found, int) else found


def _places(x: Any) -> np.ndarray:
    """Numbers for names."""
    return np.arange(len(x)) if isinstance(x[0], str) else np.asarray(x, float)


def _even(places: np.ndarray) -> bool:
    """Whether numbers are spread more evenly than their exponentials."""
    steps, grown = np.diff(places), np.diff(np.exp(places - places.max()))
    return len(steps) > 0 and bool(np.std(steps) * np.mean(grown) <= np.std(grown) * np.mean(steps))


def _rows(values: np.ndarray, along: int = -1) -> np.ndarray:
    """Curves along one axis, all others in a row."""
    values = np.moveaxis(values, along, -1)
    return values.reshape(-1, values.shape[-1])


def _wrapped(title: str, panels: int) -> str:
    """A title as wide as its figure, with a capital first letter unless it opens with a symbol."""
    first = title.split()[0]
    if first == "a" or (first.isalpha() and first.islower() and len(first) > 1):
        title = title[0].upper() + title[1:]
    return textwrap.fill(title, 62 if panels == 1 else 52 * panels)
