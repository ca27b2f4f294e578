"""Draws the pictures of the book and of the README: python docs/figures.py

That of trained networks by width shows the records of full scale that `make claims` leaves in build/lab-full.
"""

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullLocator
from sklearn.datasets import load_digits

import finitewidth as fw
from finitewidth import course as lab
from finitewidth import measure
from finitewidth.advice.tuning.figures import phase_figure, save_figure, tuning_figure
from finitewidth.course._lab.estimate import Estimate
from finitewidth.course._lab.runner import run_claim
from finitewidth.course.finite_width_after_training.claims.mean_outputs import MEAN
from finitewidth.course.finite_width_after_training.claims.output_covariance import COVARIANCE
from finitewidth.measure import regions
from finitewidth.report import style
from finitewidth.report.region_figures import plane_figure
from finitewidth.tables.reading import read_table
from finitewidth.tables.study.prediction_figures import draw_loss
from finitewidth.tables.study.preparation import Options, prepare
from finitewidth.tables.study.study import Choices, run_study

IMAGES = Path(__file__).parent / "images"
RECORDS = Path(__file__).parents[1] / "build" / "lab-full"
KEY = jax.random.key(2024)
COLORS = dict(zip(("relu", "gelu", "elu", "tanh", "sin"), style.PALETTE, strict=False))

# Pictures of claims at full scale.
CLAIMS_SHOWN = {
    "outliers": "hessian-bulk-and-outliers",
    "gradient-share": "gradient-in-top-eigenspace",
    "collapse": "nc2-simplex-frame",
}


def variances(net: fw.MLP, x: np.ndarray, key: jax.Array, draws: int) -> np.ndarray:
    """Mean square of the preactivations of every hidden layer, for independent networks."""

    @jax.jit
    def one(key: jax.Array) -> jax.Array:
        layers = net.preactivations(net.init(key, x.shape[1], jnp.float32), jnp.float32(x))
        return jnp.stack([jnp.mean(z**2) for z in layers[:-1]])

    return np.stack([one(k) for k in jax.random.split(key, draws)])


def tangent_kernel(net: fw.MLP, x: np.ndarray, key: jax.Array) -> np.ndarray:
    """The NTK of one real network: gradients of its outputs, weighted by the learning rates."""
    params = net.init(key, x.shape[1])
    total = np.zeros((len(x), len(x)))
    gradients = jax.jit(jax.jacobian(lambda p: net.apply(p, jnp.asarray(x))[:, 0]))(params)
    for layer, rate_b, rate_W in zip(gradients, net.lambda_b, net.lambda_W, strict=True):
        weight = np.asarray(layer.weight).reshape(len(x), -1)
        bias = np.asarray(layer.bias)
        total += float(rate_b) * bias @ bias.T
        total += float(rate_W) / layer.weight.shape[-1] * weight @ weight.T
    return total


def draw_depth(axes: Axes, key: jax.Array) -> None:
    """The variance with depth, at the critical point of each activation."""
    width, hidden, draws = 512, 24, 24
    shown = np.array([1, 2, 3, 4, 6, 9, 13, 18, 24])
    x = np.ones((1, 8))
    for i, (name, color) in enumerate(COLORS.items()):
        net = fw.MLP((width,) * hidden, name)
        inputs = np.sqrt(2) * x if name == "relu" else x
        style.theory_line(
            axes, np.arange(1, hidden + 1), np.asarray(fw.trajectory(net, inputs).nngp[:-1, 0]), color, name
        )
        samples = variances(net, inputs, jax.random.fold_in(key, i), draws)[:, shown - 1]
        style.measured_points(
            axes, shown, samples.mean(axis=0), samples.std(axis=0, ddof=1) / np.sqrt(draws), color
        )
    axes.set(
        xscale="log",
        yscale="log",
        xlabel="layer",
        ylabel="variance $K$",
        title="Signals with depth, width 512",
    )
    axes.xaxis.set_major_locator(FixedLocator([1, 2, 4, 8, 16]))
    axes.xaxis.set_major_formatter("{x:.0f}")
    axes.xaxis.set_minor_locator(NullLocator())
    axes.legend(loc="lower left", ncols=2, columnspacing=1.0, handlelength=1.4)


def draw_angles(axes: Axes, key: jax.Array) -> None:
    """The NTK between two inputs of equal norm, by their angle."""
    fine, coarse = np.linspace(0, np.pi, 121), np.linspace(0, np.pi, 13)

    def circle(angle: np.ndarray) -> np.ndarray:
        return np.sqrt(2) * np.stack([np.cos(angle), np.sin(angle)], axis=1)

    draws = 6
    for name in ("relu", "gelu", "tanh"):
        net = fw.MLP((1024, 1024), name)
        ntk = np.asarray(fw.kernels(net, circle(fine[:1]), circle(fine)).ntk[0])
        style.theory_line(axes, fine, ntk / ntk[0], COLORS[name], name)
        real = (
            np.stack([tangent_kernel(net, circle(coarse), k)[0] for k in jax.random.split(key, draws)])
            / ntk[0]
        )
        style.measured_points(
            axes, coarse, real.mean(axis=0), real.std(axis=0, ddof=1) / np.sqrt(draws), COLORS[name]
        )
    axes.set(
        xlabel="angle between the inputs",
        ylabel=r"$\Theta(x, x')\,/\,\Theta(x, x)$",
        title="NTK of two inputs, width 1024",
    )
    axes.set_xticks([0, np.pi / 2, np.pi], ["0", r"$\pi/2$", r"$\pi$"])
    axes.legend(handlelength=1.4)


def draw_widths(axes: Axes, key: jax.Array) -> None:
    """Single networks gather around the theory as they get wider."""
    x = np.ones((1, 8))
    rng = np.random.default_rng(0)
    for width in (8, 16, 32, 64, 128, 256, 512, 1024):
        net = fw.MLP((width,) * 4, "gelu")
        last = variances(net, x, jax.random.fold_in(key, width), 60)[:, -1]
        jitter = width * np.exp(0.12 * rng.standard_normal(len(last)))
        axes.plot(jitter, last, "o", ms=2.6, color=COLORS["gelu"], alpha=0.45, mew=0, zorder=1)
    K = float(fw.trajectory(net, x).nngp[-2, 0])
    axes.axhline(K, color=COLORS["gelu"], lw=1.7, zorder=2)
    axes.set(xscale="log", xlabel="width", ylabel="variance $K$ of layer 4", title="Single gelu networks")
    axes.set(yscale="log", ylim=(K / 12, 6 * K))
    axes.set_yticks([0.3, 1, 3, 10], ["0.3", "1", "3", "10"])
    axes.set_xticks([8, 32, 128, 512], ["8", "32", "128", "512"])
    axes.xaxis.set_minor_locator(NullLocator())


def theory_and_networks() -> Figure:
    """The picture of the README."""
    keys = jax.random.split(KEY, 3)
    with style.house_style():
        figure = Figure(figsize=(11.4, 3.9), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.08)
        figure.suptitle("Lines: theory at infinite width.   Points: real networks.", x=0.01, ha="left")
        for draw, axes, key in zip(
            (draw_depth, draw_angles, draw_widths), figure.subplots(1, 3), keys, strict=True
        ):
            draw(axes, key)
    return figure


def trained_widths() -> Figure:
    """Mean and covariance of trained networks against 1/width: the picture of the chapter on finite width."""
    panels = {
        "trained-mean-width": "Mean, tanh, one hidden layer",
        "trained-mean-gelu": "Mean, GELU, one hidden layer",
        "trained-mean-depth-3": "Mean, tanh, two hidden layers",
        "trained-mean-stopped": "Mean, tanh, two outputs",
        "trained-covariance-width": "Covariance, tanh, one hidden layer",
        "trained-covariance-depth-3": "Covariance, tanh, two hidden layers",
    }
    with style.house_style():
        figure = Figure(figsize=(12.6, 8.4), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.1, h_pad=0.1)
        words = "Stars: prediction.   Points: trained networks, ±2 s.e.   Dashed: polynomial in 1/n."
        figure.suptitle(words, x=0.01, ha="left")
        for axes, (id, title) in zip(figure.subplots(2, 3).ravel(), panels.items(), strict=True):
            record = json.loads((RECORDS / f"{id}.json").read_text(encoding="utf-8"))
            predicted = {name: np.array(value) for name, value in record["predicted"].items()}
            measured = {
                name: Estimate(np.array(m["value"]), np.array(m["sem"]))
                for name, m in record["measured"].items()
            }
            moment = COVARIANCE if "covariance" in id else MEAN
            moment.draw(axes, lab.claim(id).full, predicted, measured)
            axes.set_title(title)
    return figure


def demo_result() -> Figure:
    """The study of `make demo`: the law of trained networks, and the networks trained to check it."""
    study = run_study(
        prepare(read_table("diabetes"), None, Options()), Choices((128, 128, 128), "tanh", networks=64)
    )
    check, data = study.verification, study.data
    order = np.argsort(check.predicted_mean[:, 0])
    mean, spread = (data.unit * a[order] for a in (check.predicted_mean[:, 0], check.predicted_std))
    rows, blue = np.arange(1, len(order) + 1), style.PALETTE[0]
    with style.house_style():
        figure = Figure(figsize=(9.2, 4.4), layout="constrained")
        figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
        words = "Lines and band: computed without training.   Points: 64 networks trained afterwards."
        figure.suptitle(words, x=0.01, ha="left")
        left, right = figure.subplots(1, 2, width_ratios=(3, 2))
        band = (data.center + mean - 2 * spread, data.center + mean + 2 * spread)
        left.fill_between(rows, *band, color=blue, alpha=0.2, lw=0, label="95 % of all networks, predicted")
        left.plot(rows, data.center + mean, color=blue, label="average network, predicted")
        outputs = data.center + data.unit * check.outputs[:8, order, 0]
        left.plot(rows, outputs[0], ".", color=style.GREY, ms=3, alpha=0.6, label="8 of the networks")
        left.plot(rows, outputs[1:].T, ".", color=style.GREY, ms=3, alpha=0.6)
        average = data.center + data.unit * check.mean[order, 0]
        left.plot(
            rows, average, "o", ms=4, mfc="white", color=style.PALETTE[1], label="average of 64 networks"
        )
        left.set(xlabel="patient not seen in training, in order of prediction", ylabel="disease progression")
        left.set_title("What the networks say about 89 patients")
        left.legend(loc="upper left")
        draw_loss(right, study)
        right.set_title("Error during training")
    return figure


def spectrum_of_digits() -> Figure:
    """The Hessian of a classifier: the density from random vectors over a histogram of all eigenvalues."""
    x, y = load_digits(return_X_y=True)
    x, y = x[:500] / 16, y[:500]
    net = fw.MLP(hidden=(24,), activation="gelu", n_out=10)
    start = net.init(jax.random.key(0), x.shape[1])
    trained = fw.train(net, start, x, y, loss="cross_entropy", learning_rate=3e-3, steps=100)
    hessian = measure.hessian(measure.specimen(net, x, y, params=trained.params))
    top = measure.eigenpairs(hessian, 10)
    density = measure.spectral_density(hessian, key=jax.random.key(1), probes=8, steps=40, outliers=top)
    exact = np.linalg.eigvalsh(hessian @ np.eye(hessian.shape[0]))
    edges = np.linspace(-0.5, 6.5, 141)
    grid, width = np.linspace(-0.5, 6.5, 1401), 0.05
    curve = density.smoothed(grid, width)
    blue, red = style.PALETTE[:2]
    with style.house_style():
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.hist(exact, edges, density=True, color=style.GREY, alpha=0.4, label="all eigenvalues")
        low, high = curve.value - 2 * curve.sem, curve.value + 2 * curve.sem
        axes.fill_between(grid, np.maximum(low, 1e-6), high, color=blue, alpha=0.25, lw=0)
        axes.plot(grid, curve.value, color=blue, label="density from 8 random vectors")
        axes.plot(top.values, np.full(10, 3e-4), "|", color=red, ms=10, mew=2, label="ten largest")
        axes.set(yscale="log", ylim=(1e-4, 30), xlabel="eigenvalue of the Hessian", ylabel="density")
        axes.set_title("A bulk around zero, and nine eigenvalues for ten classes")
        axes.legend(loc="upper right")
    return figure


def region_cells() -> Figure:
    """The network of the guide's page on linear regions."""
    net = fw.MLP(hidden=(32, 32), activation="relu", C_b=0.1, C_W=2.0)
    plane = regions.as_plane([0.0, 0.0], np.eye(2), polygon=3.0)
    return plane_figure(regions.plane_regions(net, plane, params=net.init(jax.random.key(0), 2)))


def main() -> None:
    """Write every picture."""
    IMAGES.mkdir(exist_ok=True)
    diagram = fw.phase_diagram("tanh", C_W=np.linspace(0.25, 2.5, 451))
    save_figure(phase_figure(diagram), IMAGES / "phases-tanh.png")
    save_figure(tuning_figure(fw.tune("gelu", depth=24, width=512)), IMAGES / "tune-gelu.png")
    save_figure(theory_and_networks(), IMAGES / "theory-and-networks.png")
    save_figure(spectrum_of_digits(), IMAGES / "spectrum.png")
    save_figure(demo_result(), IMAGES / "demo.png")
    save_figure(region_cells(), IMAGES / "regions.png")
    save_figure(trained_widths(), IMAGES / "trained-widths.png")
    for name, claim in CLAIMS_SHOWN.items():
        with style.house_style():
            save_figure(run_claim(lab.claim(claim), "full").draw(), IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
