"""Draws the pictures of the chapters on exact laws: python docs/figures_exact_laws.py"""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

import finitewidth as fw
from finitewidth.advice.tuning.figures import save_figure
from finitewidth.course._instruments.linear_networks import conditioned_scale, random_generator
from finitewidth.course.entropy_and_widths.theory.entropy import lipschitz_centres, lipschitz_entropy
from finitewidth.course.entropy_and_widths.theory.finite_sets import finite_entropy
from finitewidth.course.entropy_and_widths.theory.networks import network_class
from finitewidth.course.path_counting.networks.relu_layers import relu_networks
from finitewidth.course.path_counting.theory.jacobians import exponential_growth, jacobian_moments, log_norm
from finitewidth.prediction.methods.bayesian.deep_linear.effective_depth import (
    effective_depth,
    posterior_scale,
    posterior_scale_of_depth,
)
from finitewidth.prediction.methods.bayesian.deep_linear.interpolation import interpolate
from finitewidth.prediction.selection.deep_linear import best_prior_variance
from finitewidth.report import style

IMAGES = Path(__file__).parent / "images"
KEY = jax.random.key(7)


def blank(panels: int, words: str) -> tuple[Figure, list]:
    figure = Figure(figsize=(5.2 * panels, 3.9), layout="constrained")
    figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)
    figure.suptitle(words, x=0.01, ha="left")
    return figure, list(figure.subplots(1, panels))


def deep_linear() -> Figure:
    """Posterior scale by effective depth, a predictive density, and the evidence by depth."""
    with style.house_style():
        figure, (left, middle, right) = blank(
            3, "Deep linear networks of finite width, conditioned on labels"
        )
        nu, points, width = 1.8, 200, 400
        depths = np.unique(np.geomspace(1, 300, 40).astype(int))
        shown = depths[::4]
        limit = np.geomspace(0.3, 200, 60)
        style.theory_line(
            left, limit, [posterior_scale_of_depth(nu, d) for d in limit], style.GREY, "many layers", "--"
        )
        finite = [posterior_scale(nu, points, (width,) * int(d)) for d in depths]
        style.theory_line(left, points * depths / width, finite, style.PALETTE[0], "large sizes")
        exact = [conditioned_scale((width,) * int(d), points, points * nu / 2).mean for d in shown]
        at = [effective_depth(points, (width,) * int(d)) for d in shown]
        style.measured_points(left, at, exact, np.zeros(len(shown)), style.PALETTE[1], "exact")
        left.set(xscale="log", xlabel=r"effective depth $P\,\sum 1/n_l$", ylabel="posterior mean of s")
        left.set_title(r"From no learning, s = 1, to $s=\nu=1.8$")
        left.legend()

        rng = random_generator(KEY)
        x = np.linalg.qr(rng.normal(size=(30, 3)))[0].T
        law = interpolate(fw.MLP((6, 6, 6), "linear", 0.0, 1.0), x, np.array([0.2, -0.25, 0.15]))
        test = rng.normal(size=(1, 30))
        std, mean = law.std(test)[0], law.mean(test)[0]
        z = np.linspace(-5, 5, 161)
        density = np.exp(law.log_density(np.repeat(test, len(z), axis=0), mean + std * z)) * std
        style.theory_line(middle, z, density, style.PALETTE[0], "exact")
        gaussian = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        style.theory_line(middle, z, gaussian, style.GREY, "Gaussian of the same variance", "--")
        middle.set(yscale="log", ylim=(1e-4, 1), xlabel="standard deviations from the mean", ylabel="density")
        middle.set_title(f"A prediction, excess kurtosis {law.excess_kurtosis:.1f}")
        middle.legend(loc="lower center")

        features, P = 100, 50
        x, y = rng.normal(size=(P, features)), 2 * rng.normal(size=P)
        layers = np.arange(0, 16)
        for width, color in zip((20, 50, 200), style.PALETTE, strict=False):
            nets = [fw.MLP((width,) * int(d), "linear", 0.0, 1.0) for d in layers]
            best = best_prior_variance(nets[0], x, y).log_evidence
            style.theory_line(
                right,
                layers,
                [interpolate(n, x, y).log_evidence - best for n in nets],
                color,
                f"width {width}",
            )
        right.axhline(0, color=style.GREY, lw=1.2, ls="--", label="no layer, best prior variance")
        right.set(xlabel="hidden layers", ylabel="log evidence, relative", title="A prior too small, S = 1")
        right.legend(loc="lower right")
    return figure


def path_counting() -> Figure:
    """Fourth moments of derivatives by depth, and the log-normal law of lengths."""
    with style.house_style():
        figure, (left, right) = blank(2, "Random ReLU networks, exact at finite width")
        depths = np.arange(1, 13)
        for i, (n, color) in enumerate(zip((10, 20, 50), style.PALETTE, strict=False)):
            nets = [fw.MLP((n,) * int(d), "relu") for d in depths]
            style.theory_line(
                left, depths, [jacobian_moments(net, 4).entry_ratio / 3 for net in nets], color, f"width {n}"
            )
            style.theory_line(left, depths, [exponential_growth(net) for net in nets], color, dash=":")
            shown = depths[depths * 5 / n <= 1.6][::2]
            means, errors = [], []
            for d in shown:
                x = np.ones((1, 4))
                key = jax.random.fold_in(KEY, 100 * i + int(d))
                parts = [
                    np.sum(part.derivative(np.eye(4)[0]) ** 2, axis=1) * 4 / n
                    for part in relu_networks(x, (n,) * int(d), key, 8000)
                ]
                fourth = np.concatenate(parts) ** 2
                means.append(fourth.mean())
                errors.append(fourth.std() / np.sqrt(len(fourth)))
            style.measured_points(left, shown, means, errors, color)
        left.set(yscale="log", xlabel="hidden layers", ylabel=r"$E[J^4]\,/\,3E[J^2]^2$")
        left.set_title(r"$\prod(1+5/n)$, dotted: $e^{5L/n}$")
        style.legend(left)

        rng = random_generator(jax.random.fold_in(KEY, 1))
        law = log_norm(fw.MLP((100,) * 20, "relu"))
        logs = np.zeros(20_000)
        for _ in range(20):
            logs += np.log(2 * np.mean(np.maximum(rng.standard_normal((20_000, 100)), 0) ** 2, axis=1))
        right.hist(logs, bins=60, density=True, color=style.PALETTE[1], alpha=0.35, label="networks")
        at = np.linspace(-5, 4, 200)
        curve = np.exp(-((at - law.mean) ** 2) / (2 * law.variance)) / np.sqrt(2 * np.pi * law.variance)
        style.theory_line(right, at, curve, style.PALETTE[0], "Gaussian, exact mean and variance")
        right.set(
            xlabel=r"$\log(|h_L|^2n_0/n_L|x|^2)$", ylabel="density", title="Lengths after 20 layers of 100"
        )
        right.set_ylim(top=0.52)
        right.legend(loc="upper left")
    return figure


def complexity() -> Figure:
    """Centres of a cover of Lipschitz functions, and the widths of a class of networks."""
    with style.house_style():
        figure, (left, right) = blank(2, "Covers and stable descriptions")
        n = 4
        centres, radius = lipschitz_centres(n), lipschitz_entropy(n)
        places = np.linspace(0, 1, n + 2)
        left.plot(places, centres.T, color=style.GREY, lw=0.8, alpha=0.7)
        rng = np.random.default_rng(3)
        fine = np.linspace(0, 1, 61)
        drawn = np.concatenate([[0.0], np.cumsum(np.clip(rng.normal(scale=1.5, size=60), -1, 1))]) / 60
        values = np.array([np.interp(fine, places, c) for c in centres])
        nearest = values[np.argmin(np.abs(values - drawn).max(axis=1))]
        left.fill_between(fine, nearest - radius, nearest + radius, color=style.PALETTE[0], alpha=0.2, lw=0)
        style.theory_line(left, fine, nearest, style.PALETTE[0], "its nearest centre, ±1/5")
        style.theory_line(left, fine, drawn, style.PALETTE[1], "a Lipschitz function")
        left.set(xlabel="x", ylabel="f(x)", title="16 centres cover at radius 1/5")
        left.legend(loc="upper left")

        x = np.linspace(-2, 2, 40)[:, None]
        numbers, bits = np.arange(1, 13), np.arange(0, 8)
        for depth, color in zip((1, 3), style.PALETTE, strict=False):
            found = network_class(fw.MLP((32,) * depth, "tanh"), x, jax.random.fold_in(KEY, depth), 200)
            style.theory_line(
                right,
                numbers,
                [found.linear_width(int(m)) for m in numbers],
                color,
                f"linear codes, {depth} hidden",
            )
            radii = [finite_entropy(found.functions, int(b)).upper for b in bits]
            style.theory_line(right, bits[1:], radii[1:], color, f"greedy covers, {depth} hidden", "--")
        right.set(
            yscale="log",
            xlabel="numbers, or bits",
            ylabel="error",
            title="200 random tanh networks, width 32",
        )
        right.set_ylim(bottom=1e-5)
        right.legend(fontsize=8)
    return figure


def main() -> None:
    """Write every picture."""
    save_figure(deep_linear(), IMAGES / "deep-linear.png")
    save_figure(path_counting(), IMAGES / "path-counting.png")
    save_figure(complexity(), IMAGES / "complexity.png")


if __name__ == "__main__":
    main()
