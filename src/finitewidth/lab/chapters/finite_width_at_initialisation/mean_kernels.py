"""What finite width does to the mean kernels."""

from dataclasses import dataclass

import jax
import numpy as np
from matplotlib.figure import Figure

from finitewidth.architecture import MLP
from finitewidth.lab.framework.claim import Check, Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import z_score
from finitewidth.lab.framework.sources import BEYOND, BOOK
from finitewidth.lab.instruments.kernel_shifts import measured_shifts
from finitewidth.lab.instruments.tensors import extrapolated
from finitewidth.report import style
from finitewidth.statistics.corrections import corrections

_X = np.array([[1.0, 0.3], [-0.4, 1.2]])
_ENTRIES = ((0, 0), (0, 1), (1, 1))
_SHIFTS = ("G1", "H1")


@dataclass(frozen=True)
class Means:
    """GELU networks of several depths, two inputs, the widths given and twice as wide."""

    architectures: tuple[tuple[int, ...], ...]
    draws: int

    def network(self, hidden: tuple[int, ...], times: int = 1) -> MLP:
        return MLP(tuple(times * n for n in hidden), "gelu", 0.2, 1.5, 0.5, 0.8)


def _theory(setting: Means) -> Prediction:
    prediction = {}
    for hidden in setting.architectures:
        tensors = corrections(setting.network(hidden), _X)
        for name in _SHIFTS:
            prediction[f"{name} depth {len(hidden) + 1}"] = np.asarray(getattr(tensors, name))
    return prediction


def _measure(setting: Means, key) -> Measurement:
    measurement = {}
    for hidden in setting.architectures:
        key, first, second = jax.random.split(key, 3)
        narrow, wide = (
            measured_shifts(setting.network(hidden, times), _X, k, setting.draws)
            for times, k in ((1, first), (2, second))
        )
        for name in _SHIFTS:
            title = f"{name} depth {len(hidden) + 1}"
            measurement[title] = extrapolated(narrow[name], wide[name])
            measurement[f"{title}, narrow"], measurement[f"{title}, wide"] = narrow[name], wide[name]
    return measurement


def _compare(setting: Means, predicted: Prediction, measured: Measurement) -> Verdict:
    """Two widths remove the next order, which leaves (depth/width)^2."""
    checks: list[Check] = []
    for hidden in setting.architectures:
        depth = len(hidden) + 1
        for name in _SHIFTS:
            key = f"{name} depth {depth}"
            allowed = (depth / min(hidden)) ** 2 * np.abs(predicted[key]).max()
            checks.append(z_score(key, predicted[key], measured[key], allowed))
    return Verdict(tuple(checks))


def _figure(setting: Means, predicted: Prediction, measured: Measurement) -> Figure:
    hidden = setting.architectures[-1]
    depth = len(hidden) + 1
    figure, axes = style.panels(f"Shifts of the mean kernels times the width (GELU, depth {depth})", 2)
    x = np.array([1 / hidden[-1], 1 / (2 * hidden[-1])])
    for ax, name, title in zip(axes, _SHIFTS, ("NNGP kernel", "NTK"), strict=True):
        key = f"{name} depth {depth}"
        for entry, color in zip(_ENTRIES, style.PALETTE, strict=False):
            at_widths = [measured[f"{key}, {size}"] for size in ("narrow", "wide")]
            values = np.array([estimate.value[entry] for estimate in at_widths])
            sems = np.array([estimate.sem[entry] for estimate in at_widths])
            label = f"inputs {entry[0] + 1}, {entry[1] + 1}"
            style.measured_points(ax, x, values, sems, color)
            ax.plot([0.0, x[0]], [2 * values[1] - values[0], values[0]], ":", color=color, lw=1.2)
            ax.plot(0.0, predicted[key][entry], "D", color=color, ms=6, label=label, clip_on=False, zorder=3)
        ax.set(xlabel="1 / width", ylabel="width x (mean less its limit)", title=title)
        ax.set_xlim(left=0.0)
        ax.legend(title="predicted limit (diamonds)")
    return figure


CLAIMS = (
    Claim(
        id="mean-kernel-shift",
        title="mean kernels shift by G1/n and H1/n",
        chapter="Finite width at initialisation",
        statement=(
            "The mean of a product of two outputs and the mean NTK of GELU networks differ from their "
            "infinite-width values by G1/n and H1/n, at equal and at different inputs. Networks and their "
            "halves, coupled so that first-order fluctuations cancel, show both to a few percent."
        ),
        source=f"{BEYOND}: {BOOK}, chapters 4 and 8; several inputs derived here",
        quick=Means(((16, 16),), draws=2000),
        full=Means(((16, 16), (16, 24, 16)), draws=4000),
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
    ),
)
