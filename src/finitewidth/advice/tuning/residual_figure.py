"""The picture of advice for a residual network."""

import numpy as np
from matplotlib.figure import Figure

from finitewidth.advice.tuning.residual import ResidualTuning
from finitewidth.report import style


def residual_tuning_figure(advice: ResidualTuning) -> Figure:
    """Variance of the stream and squared gradients by block, with the advice and with the defaults."""
    placed = {"none": "no norm", "pre": "pre-norm", "post": "post-norm"}[advice.norm]
    title = f"{advice.activation.name}, {advice.blocks} residual blocks of {advice.width}, {placed}"
    with style.house_style():
        figure, (forward, backward) = style.panels(title, 2)
        blocks = np.arange(advice.blocks + 1)
        for color, (name, signal) in zip(style.PALETTE, advice.signals.items(), strict=False):
            label = f"{name}, branch scale {advice.branch_scale if name == 'recommended' else 1:.3g}"
            style.theory_line(forward, blocks, signal.variance, color, label)
            style.theory_line(backward, blocks, signal.gradient / signal.gradient[-1], color, label)
        forward.set(title="Variance of the stream", xlabel="block", ylabel="$K$", yscale="log")
        backward.set(
            title="Squared gradient, one at the last block", xlabel="block", ylabel="squared gradient",
            yscale="log",
        )  # fmt: skip
        figure.legend(*forward.get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=8.5)
    return figure
