"""The picture of a coordinate check."""

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from finitewidth.measure.layers.coordinate_check import CoordinateCheck
from finitewidth.report import style


def coordinate_figure(check: CoordinateCheck, title: str = "Coordinate check") -> Figure:
    """Sizes at the start, and changes after the first and the last step, against the width, by site.

    Points are means over the draws with their spread; a line that rises is a layer that moves further the
    wider the network is.
    """
    steps = check.changes.shape[2]
    panels = [
        ("Size at the start", check.sizes[:, :, 0], check.exponents(0, "sizes")),
        ("Change after the first step", check.changes[:, :, 0], check.exponents(0)),
        (f"Change after step {steps}", check.changes[:, :, -1], check.exponents(-1)),
    ]
    with style.house_style():
        figure, all_axes = style.panels(title, 3)
        for axes, (name, values, powers) in zip(all_axes, panels, strict=True):
            for i, site in enumerate(check.sites):
                color = style.PALETTE[i % len(style.PALETTE)]
                mean, spread = values[i].mean(axis=1), values[i].std(axis=1, ddof=1)
                label = f"{site}: power {powers.value[i]:+.2f}"
                axes.errorbar(
                    check.widths, mean, yerr=np.minimum(spread, 0.9 * mean), fmt="-o", ms=4, lw=1.2,
                    color=color, label=label,
                )  # fmt: skip
            axes.set(xscale="log", yscale="log", xlabel="width", title=name)
            axes.xaxis.set_minor_locator(NullLocator())
            axes.set_xticks(check.widths, [str(width) for width in check.widths])
            axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.14), fontsize=8)
        all_axes[0].set_ylabel("root mean square")
    return figure
