"""Pictures of a study: predictions, their calibration, the kernel's spectrum, the loss in training."""

import math

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import MaxNLocator, PercentFormatter
from scipy.special import bdtr, bdtrik

from finitewidth.report import style
from finitewidth.tables.study.scores import Coverage, Reliability
from finitewidth.tables.study.study import Study
from finitewidth.verification.result import Verification

_SIZE = (5.4, 4.0)
_BLUE, _RED, _GREEN = style.PALETTE[:3]
# Test rows with like corrections are averaged, into so many groups.
_GROUPS = 12
# Error bars of more rows than this hide each other.
_MOST_BARS = 400


def _panel() -> tuple[Figure, Axes]:
    figure = Figure(figsize=_SIZE, layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
    return figure, figure.subplots()


def parity_figure(study: Study) -> Figure | None:
    """Regression: true against predicted values. Classification: how often each class is taken for which."""
    if study.data.y_test is None:
        return None
    with style.house_style():
        figure, axes = _panel()
        if study.data.labels_test is not None:
            _draw_confusion(axes, study)
        else:
            _draw_parity(axes, study)
    return figure


def _draw_parity(axes: Axes, study: Study) -> None:
    data = study.data
    assert data.y_test is not None
    truth, mean = data.center + data.unit * data.y_test[:, 0], study.mean[:, 0]
    low, high = min(truth.min(), mean.min()), max(truth.max(), mean.max())
    pad = 0.04 * (high - low)
    axes.plot([low - pad, high + pad], [low - pad, high + pad], color=style.GREY, lw=1, zorder=1)
    shown = slice(None) if len(mean) <= _MOST_BARS else slice(0, 0)
    axes.errorbar(
        mean[shown], truth[shown], xerr=study.std[shown], fmt="none", ecolor=_BLUE, alpha=0.22, elinewidth=1
    )
    axes.plot(mean, truth, "o", ms=3.6, color=_BLUE, alpha=0.85, mew=0)
    target = style.name(data.target)
    axes.set(
        xlabel=f"predicted {target}, ±1 standard deviation", ylabel=f"true {target}",
        xlim=(low - pad, high + pad), ylim=(low - pad, high + pad),
    )  # fmt: skip


def _draw_confusion(axes: Axes, study: Study) -> None:
    data = study.data
    assert data.labels_test is not None
    count = len(data.classes)
    chosen = study.probability.argmax(axis=1)
    table = np.zeros((count, count), int)
    np.add.at(table, (data.labels_test, chosen), 1)
    axes.pcolormesh(np.arange(count), np.arange(count), np.sqrt(table), cmap="Blues", vmin=0)
    axes.invert_yaxis()
    axes.grid(visible=False)
    if count <= 12:
        dark = 0.5 * math.sqrt(table.max())
        for (i, j), rows in np.ndenumerate(table):
            if rows:
                shade = "white" if math.sqrt(rows) > dark else "#222222"
                axes.text(j, i, str(rows), ha="center", va="center", color=shade, fontsize=8.5)
        names = [style.name(name if len(name) <= 12 else name[:11] + "…") for name in data.classes]
        long = max(map(len, names)) > 3
        axes.set_xticks(range(count), names, rotation=30 if long else 0, ha="right" if long else "center")
        axes.set_yticks(range(count), names)
    axes.set(xlabel=f"predicted {style.name(data.target)}", ylabel=f"true {style.name(data.target)}")


def calibration_figure(study: Study) -> Figure | None:
    """What the uncertainty says against what happened, with the range that chance alone allows."""
    if study.scores is None:
        return None
    calibration, rows = study.scores.calibration, len(study.data.x_test)
    with style.house_style():
        figure, axes = _panel()
        axes.plot([0, 1], [0, 1], color=style.GREY, lw=1, label="perfect", zorder=1)
        if isinstance(calibration, Coverage):
            _draw_coverage(axes, calibration, rows)
            axes.legend(loc="upper left")
        else:
            _draw_reliability(axes, calibration)
            axes.legend(loc="lower right")
        for axis in (axes.xaxis, axes.yaxis):
            axis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    return figure


def _chance(rows: int | np.ndarray, share: np.ndarray) -> list[np.ndarray]:
    """The middle 95 % of the share of `rows` that comes true, each with probability `share` (above zero)."""
    ends = []
    for q in (0.025, 0.975):
        above = np.ceil(bdtrik(q, rows, share))
        below = np.maximum(above - 1, 0)
        ends.append(np.where(bdtr(below, rows, share) >= q, below, above) / rows)
    return ends


def _draw_coverage(axes: Axes, calibration: Coverage, rows: int) -> None:
    grid = np.linspace(0.01, 0.99, 99)
    low, high = _chance(rows, grid)
    axes.fill_between(grid, low, high, color=style.GREY, alpha=0.15, lw=0, label="95 % of chance")
    axes.plot(calibration.levels, calibration.observed, "o-", ms=4.6, color=_BLUE, lw=1.2, label="test rows")
    axes.set(xlabel="share that intervals should hold", ylabel="share of test values inside")


def _draw_reliability(axes: Axes, calibration: Reliability) -> None:
    used = calibration.confidence
    low, high = _chance(calibration.rows, used)
    axes.vlines(used, low, high, color=style.GREY, alpha=0.35, lw=5, label="95 % of chance")
    axes.plot(used, calibration.accuracy, "o", ms=5, color=_BLUE, label="test rows, by tenths")
    # Groups are told apart by size, so that a single odd row is not taken for a trend.
    for x, y, rows in zip(used, calibration.accuracy, calibration.rows, strict=True):
        axes.annotate(f"{rows}", (x, y), (5, -9), textcoords="offset points", fontsize=7.5, color=style.GREY)
    axes.set(
        xlabel="probability given to the predicted class", ylabel="share that is right", xlim=(-0.02, 1.06),
        ylim=(-0.02, 1.06),
    )  # fmt: skip


def spectrum_figure(study: Study) -> Figure:
    """Eigenvalues of the training NTK, and how much of the target lies in the leading modes."""
    values, power = study.alignment
    modes = np.arange(1, len(values) + 1)
    with style.house_style():
        figure = Figure(figsize=(5.4, 5.0), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
        above, below = figure.subplots(2, 1, sharex=True)
        style.theory_line(above, modes, values, _BLUE)
        above.set(yscale="log", xscale="log", ylabel="eigenvalue / rows")
        style.power_ticks(above.yaxis)
        if study.ridge > 0:
            level = study.ridge / len(study.data.x_train)
            above.axhline(level, color=_RED, lw=1.2, ls="--", label="ridge: modes below are hardly learnt")
            above.legend(loc="lower left")
        style.theory_line(below, modes, power, _GREEN)
        below.set(xscale="log", xlabel="mode", ylabel="target explained", ylim=(0, 1.03))
        below.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
        style.power_ticks(below.xaxis)
    return figure


def loss_figure(study: Study) -> Figure | None:
    """Error during training: lines are predicted, at infinite width, points are real networks."""
    if study.curves is None:
        return None
    with style.house_style():
        figure, axes = _panel()
        draw_loss(axes, study)
    return figure


def draw_loss(axes: Axes, study: Study) -> None:
    """The curves of `loss_figure`, for a figure with other panels beside them."""
    unit = study.data.unit
    error = lambda loss: unit * np.sqrt(2 * np.asarray(loss))
    curves, check = study.curves, study.verification
    assert curves is not None
    at = np.maximum(curves.at, 0.7)
    for name, color, values in (("training rows", _BLUE, curves.train), ("test rows", _RED, curves.test)):
        if values is not None:
            style.theory_line(axes, at, error(values), color, f"{name}, infinite width")
    if check is not None:
        _draw_measured(axes, check, error)
        style.legend(axes)
    else:
        axes.legend()
    quantity = (
        "distance to the one-hot target"
        if study.data.classes
        else f"error of {style.name(study.data.target)}"
    )
    axes.set(xscale="log", xlabel="steps of gradient descent", ylabel=f"{quantity} (rms)")
    style.power_ticks(axes.xaxis)


def _draw_measured(axes: Axes, check: Verification, error) -> None:
    times, loss = check.predicted_loss.at, check.loss
    shown = np.unique(np.searchsorted(times, np.geomspace(1, times[-1], 14)))
    for color, values, sem in ((_BLUE, loss.train, loss.train_sem), (_RED, loss.test, loss.test_sem)):
        if values is None or sem is None:
            continue
        # d sqrt(L) = dL / (2 sqrt(L)), as a standard error.
        bars = error(values) * sem / (2 * values)
        style.measured_points(axes, np.maximum(times[shown], 0.7), error(values)[shown], bars[shown], color)


def finite_width_figure(study: Study) -> Figure | None:
    """What finite width changes, predicted and, where networks were trained, measured; and its origins."""
    first = study.law.correction
    if first is None:
        return None
    unit, check = study.data.unit, study.verification
    with style.house_style():
        figure = Figure(figsize=(5.4, 5.4), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
        sizes = list(study.correction_sizes.values())
        heights = (2, 1) if sizes else (1,)
        above, *below = figure.subplots(len(heights), 1, height_ratios=heights, squeeze=False).flat
        if check is not None and check.predicted_correction is not None:
            predicted, measured, bars = (unit * a for a in check.shift_by_group(_GROUPS))
            style.measured_points(above, predicted, measured, bars, _BLUE, "networks, ±2 standard errors")
            ylabel = "mean minus infinite width"
        else:
            predicted = unit * np.asarray(first.mean).ravel()
            bars = unit * np.asarray(first.mean_error).ravel()
            above.errorbar(
                predicted, predicted, bars, fmt="o", ms=3, color=_BLUE, label="test rows, sampling error"
            )
            ylabel = "correction"
        ends = np.array([predicted.min(), predicted.max()])
        above.axhline(0, color=style.GREY, lw=1, ls="--", label="infinite width")
        above.plot(ends, ends, color=_RED, label=f"with the correction in {study.small_number}")
        above.set(xlabel="predicted correction", ylabel=ylabel)
        above.legend(loc="best")
        names = ("mean kernel", "kernel fluctuations", "kernel moves", "kernel moves, second order")
        for axes in below:
            axes.barh(names[::-1], sizes[::-1], color=_BLUE, height=0.6)
            axes.set(xlabel="size of the correction, by origin (rms)")
    return figure


def networks_figure(study: Study) -> Figure | None:
    """Real networks against their law: differences of the means in standard errors, and the spreads."""
    check = study.verification
    if check is None:
        return None
    with style.house_style():
        figure = Figure(figsize=(5.4, 5.4), layout=ConstrainedLayoutEngine(w_pad=0.06, h_pad=0.06))
        above, below = figure.subplots(2, 1)
        z = check.z_mean.ravel()
        edges = np.linspace(-max(4.5, np.abs(z).max() + 0.5), max(4.5, np.abs(z).max() + 0.5), 31)
        above.hist(z, edges, color=_BLUE, alpha=0.75, label="test rows")
        middle = np.linspace(edges[0], edges[-1], 300)
        normal = np.exp(-(middle**2) / 2) / math.sqrt(2 * math.pi) * len(z) * (edges[1] - edges[0])
        style.theory_line(above, middle, normal, style.GREY, "noise alone")
        above.set(xlabel="mean of networks minus prediction, in standard errors", ylabel="outputs")
        above.yaxis.set_major_locator(MaxNLocator(integer=True))
        above.legend(loc="upper right")
        unit = study.data.unit
        predicted = np.broadcast_to(check.predicted_std[:, None], check.std.shape).ravel() * unit
        measured = check.std.ravel() * unit
        infinite = check.infinite_std
        if infinite is not None:
            without = np.broadcast_to(infinite[:, None], check.std.shape).ravel() * unit
            below.plot(
                without, measured, "o", ms=3, mfc="none", color=style.GREY, alpha=0.5, label="infinite width"
            )
        low, high = min(predicted.min(), measured.min()), max(predicted.max(), measured.max())
        sem = 1 / math.sqrt(2 * (check.networks - 1))
        line = np.array([0.95 * low, 1.03 * high])
        below.fill_between(
            line, line * (1 - 2 * sem), line * (1 + 2 * sem), color=style.GREY, alpha=0.15, lw=0,
            label="±2 standard errors",
        )  # fmt: skip
        below.plot(line, line, color=style.GREY, lw=1)
        below.plot(predicted, measured, "o", ms=3, color=_BLUE, alpha=0.6, mew=0)
        below.set(xlabel="predicted spread of networks", ylabel="measured spread")
        below.legend(loc="upper left")
    return figure
