"""Draws the pictures of implicit bias: python docs/figures_implicit_bias.py"""

from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from finitewidth.advice.tuning.figures import save_figure
from finitewidth.course.implicit_bias.networks import interpolation, separable
from finitewidth.course.implicit_bias.networks.diagonal_networks import diagonal_descent, diagonal_flow
from finitewidth.course.implicit_bias.networks.margin_training import separable_flow
from finitewidth.course.implicit_bias.theory.diagonal import DiagonalNetwork
from finitewidth.course.implicit_bias.theory.interpolators import mirror_limit
from finitewidth.course.implicit_bias.theory.margin_time import margin_constant
from finitewidth.course.implicit_bias.theory.max_margin import max_margin
from finitewidth.course.implicit_bias.theory.potentials import HyperbolicEntropy
from finitewidth.course.implicit_bias.theory.sparse_margin import sparse_margin
from finitewidth.report import style

IMAGES = Path(__file__).parent / "images"


def margin_picture() -> Figure:
    """The angle to the hard margin, the share of the margin, and squared weights and the sparse one."""
    classes = separable.draw_with_rate(np.random.default_rng(5), 10, 2, 0.1, spanning=True)
    found = max_margin(*classes)
    times = np.geomspace(2, 2000, 25)
    none = np.zeros(len(times))
    with style.house_style():
        title = "Separable classes: where training goes, and how slowly"
        figure, (left, middle, right) = style.panels(title, 3)
        late = times[times > 6]
        style.theory_line(
            left, late, [found.angle_at(t) for t in late], style.PALETTE[0], r"$\hat w\log t+\tilde w$"
        )
        for loss, color in zip(("exponential", "logistic"), style.PALETTE[1:], strict=False):
            w = separable_flow(*classes, times, loss=loss)
            cosine = w @ found.direction / np.linalg.norm(w, axis=1)
            style.measured_points(left, times, np.arccos(np.minimum(cosine, 1)), none, color, loss)
            share = (classes.signed @ w.T).min(axis=0)
            short = 1 - share / np.linalg.norm(w, axis=1) / found.margin
            style.measured_points(middle, times, short, none, color, loss)
        style.theory_line(middle, times, margin_constant(found) / times, style.PALETTE[0], r"$c/\log t$")
        left.set(xscale="log", yscale="log", xlabel=r"$\log t$", ylabel="angle to the hard margin")
        middle.set(
            xscale="log", yscale="log", xlabel=r"$\log t$", ylabel="share of the margin that is missing"
        )
        for axes in (left, middle):
            axes.legend(fontsize=8)
        classes = separable.draw_with_sparse_margin(np.random.default_rng(2), 6, 4, 0.35, 0.85, 0.2)
        late = np.geomspace(3, 3e4, 16)
        beta = separable.squares_flow(classes, 0.1, late).beta
        beta /= np.linalg.norm(beta, axis=1, keepdims=True)
        limits = (
            ("sparse margin", sparse_margin(*classes).weights),
            ("hard margin", max_margin(*classes).weights),
        )
        for (name, weights), color in zip(limits, style.PALETTE, strict=False):
            cosine = beta @ weights / np.linalg.norm(weights)
            style.measured_points(right, late, cosine, np.zeros(len(late)), color, name)
        right.axhline(1, color=style.GREY, lw=1)
        right.set(xscale="log", xlabel=r"$\log t$", ylabel=r"cosine of $u^2-v^2$ with")
        right.legend(fontsize=8)
    return figure


def diagonal_picture() -> Figure:
    """Weights over the scale of the start, with both limits, and the first order in the step."""
    problem = interpolation.draw_with_slack(np.random.default_rng(7), 3, 6, 0.3)
    x, y, theta0 = problem
    alphas, dots = np.geomspace(1e-4, 30, 60), np.geomspace(1e-4, 10, 6)
    lines = np.array([DiagonalNetwork(a, theta0).limit(x, y).weights for a in alphas])
    points = np.asarray(diagonal_flow(x, y, dots[:, None] * theta0).beta)
    sparse, _ = interpolation.sparse_interpolator(problem)
    short = DiagonalNetwork(1.0, theta0).large_scale_limit(x, y).weights
    with style.house_style():
        figure, (left, right) = style.panels("A diagonal network: the start decides", 2)
        for i, color in enumerate(style.PALETTE):
            style.theory_line(left, alphas, lines[:, i], color)
            style.measured_points(left, dots, points[:, i], np.zeros(len(dots)), color)
            left.plot(alphas[0] / 2, sparse[i], "<", color=color, ms=6)
            left.plot(alphas[-1] * 2, short[i], ">", color=color, ms=6)
        left.set(xscale="log", xlabel=r"scale of the start $\alpha$", ylabel=r"weights $\beta_i$ at the end")
        style.legend(left, "training", "least penalty", error_bars=False, fontsize=8)
        network, alpha = DiagonalNetwork(0.3, theta0), 0.3
        flow, fastest = network.limit(x, y).weights, 8 * np.linalg.norm(x, 2) ** 2 * np.abs(lines).max()
        etas = 0.6 / fastest * 0.5 ** np.arange(5)
        ends = [
            np.asarray(diagonal_descent(x, y, alpha * theta0, eta=e, steps=int(400 / e)).beta) for e in etas
        ]
        first = [
            mirror_limit(HyperbolicEntropy(network.effective_scale(x, y, e)), x, y).weights for e in etas
        ]
        none = np.zeros(len(etas))
        for name, limits, power, color in (
            ("limit of gradient flow", [flow] * len(etas), 1, style.PALETTE[0]),
            ("with the scale that the step leaves", first, 2, style.PALETTE[1]),
        ):
            gaps = np.array([np.abs(end - limit).max() for end, limit in zip(ends, limits, strict=True)])
            style.theory_line(right, etas, gaps[-1] * (etas / etas[-1]) ** power, color)
            style.measured_points(right, etas, gaps, none, color, name)
        right.set(xscale="log", yscale="log", xlabel=r"step $\eta$", ylabel="distance of descent from")
        style.plain_ticks(right.xaxis)
        style.legend(right, "descent", r"$\eta$ and $\eta^2$", error_bars=False, fontsize=8)
    return figure


def main() -> None:
    """Write every picture."""
    IMAGES.mkdir(exist_ok=True)
    save_figure(margin_picture(), IMAGES / "margins.png")
    save_figure(diagonal_picture(), IMAGES / "diagonal-networks.png")


if __name__ == "__main__":
    main()
