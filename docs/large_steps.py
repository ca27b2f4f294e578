"""Draws the pictures of large learning rates: python docs/large_steps.py"""

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import finitewidth as fw
from finitewidth.advice.tuning.figures import save_figure
from finitewidth.course.large_learning_rates.networks import one_point
from finitewidth.course.large_learning_rates.theory.catapult import OnePointNetwork, Phase
from finitewidth.course.large_learning_rates.theory.catapult_relu import relu_catapult
from finitewidth.measure.loss.stability import edge_of_stability
from finitewidth.report import style

IMAGES = Path(__file__).parent / "images"


def draw_phases(axes: Axes, label: float) -> None:
    """Phases over step and width, and the kernel that training ends with."""
    edges, widths = np.linspace(0.05, 5, 300), np.geomspace(10, 1e6, 160)
    found = OnePointNetwork.of_width(widths[:, None], 1.0, label).phases(edges, most_steps=3000)
    end = np.where(np.asarray(found.phase) == Phase.DIVERGENT, np.nan, found.sharpness)
    image = axes.pcolormesh(edges, widths, end, cmap="viridis", vmin=0, vmax=2, rasterized=True)
    axes.axvline(2, color="white", lw=1.2)
    law = np.asarray(OnePointNetwork.of_width(widths, 1.0, label).wide_divergence_boundary)
    inside = (law > 2) & (law < 5)
    axes.plot(
        law[inside], widths[inside], "--", color=style.PALETTE[1], lw=1.5, label="first order in 1/width"
    )
    axes.set(yscale="log", xlabel=r"$\eta\lambda_0$", ylabel="width $m$", title=f"Label {label:g}, output 1")
    for x, text, color in ((1, "lazy", "black"), (3, "catapult", "white"), (4.5, "divergent", "black")):
        axes.text(x, 3e5, text, ha="center", color=color, fontsize=9)
    axes.legend(loc="lower left", fontsize=8, labelcolor="white")
    axes.figure.colorbar(image, ax=axes, label=r"$\eta\lambda$ at the end")


def draw_heights(axes: Axes) -> None:
    """The largest output over the root of the width: periodic in its logarithm."""
    widths = np.geomspace(1e3, 1e7, 400)
    for edge, color in zip((2.2, 2.5, 3.0, 3.5), style.PALETTE, strict=False):
        peak = np.asarray(OnePointNetwork.of_width(widths).phases(edge).peak)
        axes.plot(widths, peak / np.sqrt(widths), color=color, lw=1.7, label=rf"$\eta\lambda_0$ = {edge:g}")
    axes.set(xscale="log", ylim=(0, None), xlabel="width $m$", ylabel=r"largest $|z|/\sqrt{m}$")
    axes.set_title("Height of a catapult")
    axes.legend(fontsize=8)


def phase_picture() -> Figure:
    """Phases for two labels, and heights."""
    with style.house_style():
        figure, (left, middle, right) = style.panels("One training point, gates frozen", 3)
        draw_phases(left, 0.0)
        draw_phases(middle, -1.0)
        draw_heights(right)
    return figure


def catapult_picture() -> Figure:
    """Loss and kernel of real networks, with frozen gates and with real ones, against both theories."""
    width, edge, steps = 4000, 3.0, 30
    start = one_point.draw(np.random.default_rng(1), 1, width, 3, 1.0)
    lam = start.kernels[0]
    theory = OnePointNetwork.of_weights(start.u[0], start.v[0], start.x).descend(edge / lam, steps)
    wide = relu_catapult(edge, width * lam**2, output=1.0, steps=steps)
    frozen, real = (
        one_point.train(start, 0.0, np.array([edge / lam]), steps, frozen=f) for f in (True, False)
    )
    outputs = np.asarray(wide.outputs) * np.sqrt(width) * lam
    rows = (
        ("frozen gates", np.asarray(theory.losses), np.asarray(theory.kernels) / lam, frozen),
        ("real gates", outputs**2 / 2, np.asarray(wide.kernels), real),
    )
    with style.house_style():
        title = r"A catapult: one point, width 4,000, $\eta\lambda_0$ = 3"
        figure, (left, right) = style.panels(title, 2)
        none = np.zeros(steps + 1)
        for (name, losses, kernels, run), color in zip(rows, style.PALETTE, strict=False):
            times = np.arange(steps + 1)
            style.theory_line(left, times, losses, color, name)
            style.measured_points(left, times, run.outputs[:, 0] ** 2 / 2, none, color)
            style.theory_line(right, times, edge * kernels, color, name)
            style.measured_points(right, times, edge * run.kernels[:, 0] / lam, none, color)
        left.set(yscale="log", ylim=(1e-6, 1e4), xlabel="step", ylabel="loss")
        right.axhline(2, color=style.GREY, lw=1)
        right.set(xlabel="step", ylabel=r"$\eta\lambda$")
        for axes in (left, right):
            style.legend(axes, "one network", "theory", error_bars=False, fontsize=8)
    return figure


def edge_picture() -> Figure:
    """Sharpness along training: gradient descent at several steps, and other optimisers."""
    x = jax.random.normal(jax.random.key(2), (32, 4))
    y = jnp.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    net = fw.MLP((32, 32), "tanh", C_b=0.0, C_W=0.5, parametrisation="standard")
    params = net.init(jax.random.key(3), 4)

    def loss(params):
        return 0.5 * jnp.mean((net.apply(params, x) - y) ** 2)

    def train(eta: float, optimizer: str = "sgd", momentum: float = 0.9):
        return edge_of_stability(
            loss,
            params,
            learning_rate=eta,
            steps=3000,
            optimizer=optimizer,
            momentum=momentum,
            record_every=20,
        )

    with style.house_style():
        figure, (left, right) = style.panels("Sharpness rises to the limit of the optimiser", 2)
        for eta, color in zip((0.02, 0.1, 0.15, 0.2), style.PALETTE, strict=False):
            run = train(eta)
            left.plot(run.times, run.sharpness, color=color, lw=1.4, label=rf"$\eta$ = {eta:g}")
            if eta > 0.02:
                left.axhline(2 / eta, color=color, lw=1, ls="--")
        left.set(
            ylim=(0, 32),
            xlabel="step",
            ylabel=r"$\lambda_{max}$",
            title=r"Gradient descent; dashes at $2/\eta$",
        )
        left.legend(fontsize=8)
        others = (("sgd", 0.15, 0.0), ("nesterov", 0.05, 0.5), ("adam", 0.003, 0.9), ("adam", 0.02, 0.9))
        for (name, eta, b), color in zip(others, style.PALETTE, strict=False):
            run = train(eta, name, b)
            text = rf"{name}, $\eta$ = {eta:g}" + (f", b = {b:g}" if b else "")
            right.plot(run.times, run.ratio, color=color, lw=1.4, label=text)
            print(text, f"start {run.start:.3f}, late {run.late:.3f}, arrival {run.arrival()}")
        right.axhline(1, color=style.GREY, lw=1)
        right.set(
            ylim=(0, 1.6),
            xlabel="step",
            ylabel=r"$\eta\lambda_{max}$ / limit",
            title="Each against its own limit",
        )
        right.legend(fontsize=8)
    return figure


def main() -> None:
    """Write every picture."""
    IMAGES.mkdir(exist_ok=True)
    save_figure(phase_picture(), IMAGES / "catapult-phases.png")
    save_figure(catapult_picture(), IMAGES / "catapult.png")
    save_figure(edge_picture(), IMAGES / "edge-of-stability.png")


if __name__ == "__main__":
    main()
