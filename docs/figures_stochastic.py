"""Draws the pictures of stochastic gradients and of the mean field: python docs/figures_stochastic.py"""

from pathlib import Path

import jax
import numpy as np
from matplotlib.figure import Figure

from finitewidth.advice.tuning.figures import save_figure
from finitewidth.course.mean_field.claims.many_neurons import Motion, Rate
from finitewidth.course.mean_field.theory.fluctuations import mean_field_fluctuations
from finitewidth.course.mean_field.theory.population import infinite_population
from finitewidth.course.stochastic_gradients.claims.flat_regions import Drift
from finitewidth.course.stochastic_gradients.claims.steady_states import Valley
from finitewidth.course.stochastic_gradients.theory.diffusion import ito_density, step_density
from finitewidth.course.stochastic_gradients.theory.least_squares import least_squares_steady_state
from finitewidth.course.stochastic_gradients.theory.schedules import best_schedule, noisy_descent
from finitewidth.report import style

IMAGES = Path(__file__).parent / "images"
KEY = jax.random.key(7)


def steady_state() -> Figure:
    """Covariances against simulation, and the loss above its minimum over batch size and step."""
    setting = Valley(chains=3000, steps=200)
    predicted, measured = setting.theory()["bowl"], setting.measure(KEY)["bowl"]
    rng = np.random.default_rng(0)
    x = rng.normal(size=(64, 5))
    y = x @ rng.normal(size=5) + 0.5 * rng.normal(size=64)
    with style.house_style():
        figure, (left, middle, right) = style.panels("The steady state of stochastic gradient descent", 3)
        value, sem = (part.ravel() for part in measured)
        left.axline((0, 0), slope=1, color=style.GREY, lw=1.2)
        style.measured_points(left, predicted.ravel(), value, sem, style.PALETTE[1])
        left.set(
            xlabel="Lyapunov equation", ylabel="simulated, ±2 s.e.", title="Covariance in a bowl, all entries"
        )
        sizes = np.arange(1, 65)
        for how, color in zip(("without replacement", "with replacement"), style.PALETTE, strict=False):
            states = [
                least_squares_steady_state(x, y, batch_size=int(b), eta=0.1, sampling=how) for b in sizes
            ]
            style.theory_line(middle, sizes, [max(s.excess_loss, 1e-9) for s in states], color, how)
        middle.set(
            xscale="log", yscale="log", ylim=(5e-5, None), xlabel="batch size",
            ylabel="loss above its minimum", title=r"Linear regression, 64 points, $\eta$ = 0.1",
        )  # fmt: skip
        middle.legend()
        for b, color in zip((1, 4, 16), style.PALETTE, strict=False):
            limit = least_squares_steady_state(x, y, batch_size=b, eta=0.01).step_limit
            etas = np.linspace(0.01, 0.995, 60) * limit
            states = [least_squares_steady_state(x, y, batch_size=b, eta=float(eta)) for eta in etas]
            style.theory_line(right, etas, [s.excess_loss for s in states], color, f"batches of {b}")
            right.axvline(limit, color=color, lw=1, ls="--")
        right.set(
            xscale="log", yscale="log", ylim=(1e-5, 10), xlabel=r"step $\eta$",
            ylabel="loss above its minimum", title="Steps up to the limit of the second moment",
        )  # fmt: skip
        right.legend()
    return figure


def flat_regions() -> Figure:
    """The figure of the claim about drifts."""
    setting = Drift(chains=4000, network_chains=64, seed=3)
    with style.house_style():
        return setting.figure(setting.theory(), setting.measure(KEY))


def noise_and_schedules() -> Figure:
    """Densities in two wells, and variances under four schedules."""
    with style.house_style():
        figure, (left, right) = style.panels("Noise that depends on the place, and noise that must go", 2)
        sd, eta = lambda x: np.where(x < 0, 4.0, 6.0), 0.02
        law = ito_density(lambda x: (x**2 - 1) ** 2 / 4, sd, eta, -2.5, 2.5)
        chain = step_density(lambda x: x**3 - x, sd, eta, -2.5, 2.5)
        rng = np.random.default_rng(1)
        at = rng.choice([-1.0, 1.0], 40_000)
        for _ in range(1500):
            at = at - eta * (at**3 - at + sd(at) * rng.standard_normal(at.shape))
        edges = np.linspace(-2.5, 2.5, 51)
        count = np.histogram(at, edges)[0]
        density, middle = count / len(at) / np.diff(edges), (edges[1:] + edges[:-1]) / 2
        style.theory_line(left, law.points, law.values, style.GREY, "small steps", "--")
        style.theory_line(left, chain.points, chain.values, style.PALETTE[0], rf"$\eta$ = {eta}")
        sem = np.sqrt(count) / len(at) / np.diff(edges)
        style.measured_points(left, middle, density, sem, style.PALETTE[1])
        left.set(xlabel="x", ylabel="density", title="Two equal wells, more noise on the right")
        style.legend(left, "walkers", color=style.PALETTE[0], point_color=style.PALETTE[1])
        t = np.arange(1, 10_001)
        schedules = {
            "constant 0.1": np.full(len(t), 0.1),
            r"$1/\sqrt{t}$": np.minimum(1 / np.sqrt(t), 0.5),
            "$1/t$": np.minimum(1 / t, 0.5),
            "best": best_schedule(2.0, 1.3, 4.0, len(t)),
        }
        for (name, etas), color in zip(schedules.items(), style.PALETTE, strict=False):
            variance = noisy_descent(2.0, 1.3, etas, start_variance=4.0).variance
            style.theory_line(right, t, variance[1:], color, name)
        right.set(xscale="log", yscale="log", xlabel="step", ylabel="variance", title="Four schedules")
        right.legend()
    return figure


def mean_field() -> Figure:
    """Spread over the width, motion of neurons, and outputs of networks around their limit."""
    rate = Rate(widths=(64, 256, 1024), networks=100, seed=2)
    motion = Motion(widths=(64, 256, 1024), networks=60, seed=2)
    spread, moved = rate.measure(KEY), motion.measure(KEY)
    x, y, _ = rate.data
    grid = np.linspace(-1.8, 1.8, 40)
    about = {"tau": rate.tau, "steps": rate.steps}
    found = mean_field_fluctuations(infinite_population(1, 14), x[:, None], y, grid[:, None], **about)
    mean, std = np.asarray(found.mean), np.sqrt(np.diag(found.covariance) / 64)
    with style.house_style():
        figure, (left, middle, right) = style.panels("One hidden layer in the mean-field scaling", 3)
        left.fill_between(grid, mean - 2 * std, mean + 2 * std, color=style.PALETTE[0], alpha=0.25, lw=0)
        style.theory_line(left, grid, mean, style.PALETTE[0], "infinitely many neurons, ±2 s.d. of 64")
        run = rate.trained(KEY, 64)
        _, _, tests = rate.data
        for outputs in run.after[:12]:
            left.plot(tests, outputs, "o", ms=3, color=style.PALETTE[1], alpha=0.6)
        left.plot(x, y, "k+", ms=7, label="data")
        left.set(xlabel="x", ylabel="output", title="Trained networks of 64 neurons (points)")
        left.legend(fontsize=8)
        value, sem = spread["spread"]
        style.theory_line(middle, rate.widths, rate.theory()["spread"], style.PALETTE[0])
        style.measured_points(middle, rate.widths, value, sem, style.PALETTE[1])
        middle.set(xscale="log", yscale="log", xlabel="width m", ylabel="spread of outputs")
        middle.set_title(r"The spread falls like $m^{-1/2}$")
        style.legend(middle, color=style.PALETTE[0], point_color=style.PALETTE[1])
        limit = motion.theory()["motion"]
        for scaling, color in zip(("mean-field", "ntk"), style.PALETTE, strict=False):
            value, sem = moved[f"{scaling} motion"]
            line = limit if scaling == "mean-field" else value[-1] * (np.array(motion.widths) / 1024) ** -0.5
            style.theory_line(right, motion.widths, line, color, f"{scaling} scaling")
            style.measured_points(right, motion.widths, value, sem, color)
        right.set(xscale="log", yscale="log", xlabel="width m", ylabel="motion of a neuron")
        right.set_title("Neurons move, or stay")
        style.legend(right)
        for axes in (middle, right):
            style.plain_ticks(axes.xaxis, rate.widths)
    return figure


def main() -> None:
    """Write every picture."""
    IMAGES.mkdir(exist_ok=True)
    save_figure(steady_state(), IMAGES / "sgd-steady-state.png")
    save_figure(flat_regions(), IMAGES / "sgd-flat-regions.png")
    save_figure(noise_and_schedules(), IMAGES / "sgd-noise-and-schedules.png")
    save_figure(mean_field(), IMAGES / "mean-field.png")


if __name__ == "__main__":
    main()
