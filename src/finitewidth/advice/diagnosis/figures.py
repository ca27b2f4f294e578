"""Pictures of a diagnosis."""

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

from finitewidth.advice.diagnosis.result import Diagnosis
from finitewidth.report import style

_BLUE, _RED, _GREEN = style.PALETTE[:3]
# Below this share of the largest, a kernel in single precision knows nothing.
_SMALLEST_SHOWN = 1e-8
_MOST_NAMES = 16


def _panel(height: float = 4.2) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(5.4, height), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    return figure, figure.add_subplot()


def _two_panels() -> tuple[Figure, Axes, Axes]:
    figure = Figure(figsize=(5.4, 4.8), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    above, below = figure.subplots(2, 1, sharex=True)
    return figure, above, below


def signals_figure(found: Diagnosis) -> Figure | None:
    """Sizes of signals and gradients by layer, beside a critical network's."""
    if len(found.layers) < 2:
        return None
    with style.house_style():
        figure, above, below = _two_panels()
        places = np.arange(1, len(found.layers) + 1)
        for axes, measured, critical, label in (
            (above, found.signals, found.critical_signals, "signal, mean square"),
            (below, found.gradients, found.critical_gradients, "gradient, squared"),
        ):
            style.theory_line(axes, places, critical, style.GREY, "critical layers", dash="--")
            axes.plot(
                places, measured, "o-", ms=4.6, mfc="white", mew=1.3, lw=1, color=_BLUE, label="this network"
            )
            axes.set(yscale="log", ylabel=label)
            low, high = axes.get_ylim()
            if high < 100 * low:
                middle = np.sqrt(low * high)
                axes.set_ylim(min(low, middle / 10), max(high, middle * 10))
            style.power_ticks(axes.yaxis)
        above.legend(loc="best")
        style.whole_ticks(below.xaxis)
        below.set(xlabel="layer")
    return figure


def units_figure(found: Diagnosis) -> Figure | None:
    """Shares of units that never fire, and of entries without slope, by layer."""
    rows = [layer for layer in found.layers if layer.dead is not None or layer.saturated is not None]
    if not rows:
        return None
    with style.house_style():
        figure, axes = _panel(max(2.2, 0.9 + 0.28 * min(len(rows), _MOST_NAMES)))
        rows = rows[:_MOST_NAMES]
        places = np.arange(len(rows))
        dead, saturated = (
            [100 * (getattr(layer, name) or 0.0) for layer in rows] for name in ("dead", "saturated")
        )
        if any(layer.dead is not None for layer in rows):
            axes.barh(places - 0.2, dead, 0.38, color=_BLUE, label="units that never fire")
        if any(layer.saturated is not None for layer in rows):
            axes.barh(places + 0.2, saturated, 0.38, color=_RED, label="entries without slope")
        axes.set(xlabel="%", xlim=(0, 100))
        axes.set_yticks(places, [style.name(layer.name) for layer in rows])
        axes.invert_yaxis()
        axes.legend(loc="lower right")
    return figure


def spectrum_figure(found: Diagnosis) -> Figure:
    """Eigenvalues of the tangent kernel, largest first."""
    with style.house_style():
        figure, axes = _panel()
        values = found.kernel.eigenvalues / found.kernel.points
        shown = values[values > _SMALLEST_SHOWN * max(values[0], np.finfo(float).tiny)]
        axes.loglog(np.arange(1, len(shown) + 1), shown, ".", ms=4, color=_BLUE)
        rank = found.kernel.effective_rank
        axes.axvline(rank, color=style.GREY, lw=1, ls="--")
        axes.text(rank * 1.06, shown[0], f"effective rank {rank:.3g}", color=style.GREY, va="top", fontsize=9)
        axes.set(xlabel="mode", ylabel="eigenvalue / points")
        style.power_ticks(axes.yaxis)
    return figure


def next_steps_figure(found: Diagnosis) -> Figure | None:
    """The loss of the next steps: what the tangent kernel predicts, and what training does."""
    curves = found.next_steps
    if curves is None:
        return None
    with style.house_style():
        figure, axes = _panel()
        style.theory_line(
            axes, np.arange(len(curves.predicted)), curves.predicted, _BLUE, "its tangent kernel predicts"
        )
        axes.plot(
            np.arange(len(curves.trained)), curves.trained, "o", ms=3.6, mfc="white", mew=1.2, color=_RED,
            label="training does",
        )  # fmt: skip
        both = np.concatenate([curves.predicted, curves.trained])
        both = both[np.isfinite(both) & (both > 0)]
        if len(both) and both.max() > 20 * both.min():
            axes.set_yscale("log")
            style.power_ticks(axes.yaxis)
        axes.set(xlabel=f"steps of {curves.learning_rate:.3g}", ylabel="loss")
        style.whole_ticks(axes.xaxis)
        axes.legend(loc="best")
    return figure
