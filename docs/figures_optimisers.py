"""Draws the pictures of lazy training, optimisers, importance weights and influence.

python docs/figures_optimisers.py [NAME ...]
"""

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure
from sklearn.datasets import load_iris

import finitewidth as fw
from finitewidth._base.linalg.polar import CUBIC
from finitewidth.advice.tuning.figures import save_figure
from finitewidth.course.importance_and_influence.networks.importance_weights import (
    logistic_flow,
    train_weighted,
)
from finitewidth.course.importance_and_influence.theory.importance_weights import importance_effect
from finitewidth.course.lazy_training.networks.initial_scales import teacher_task, train_at_scales
from finitewidth.course.lazy_training.networks.linearised_path import linearised_path
from finitewidth.course.optimiser_geometry.networks.rescaling import train_rescaled
from finitewidth.course.optimiser_geometry.networks.steepest_descent import steepest_descent
from finitewidth.course.optimiser_geometry.theory.rescaling import equivariant_rates
from finitewidth.course.optimiser_geometry.theory.steepest_descent import newton_schulz_values
from finitewidth.measure.loss.influence import influence
from finitewidth.measure.loss.leave_one_out import fit_to_the_end, leave_one_out
from finitewidth.measure.specimen import specimen
from finitewidth.networks.training.learning_rates import learning_rate_transfer
from finitewidth.report import style

IMAGES = Path(__file__).parent / "images"


def lazy_picture() -> Figure:
    """Distance from the linearised path over training, over the scale, and what laziness costs."""
    net = fw.MLP((64,), "tanh")
    params = net.init(jax.random.key(0), 3)
    x = jax.random.normal(jax.random.key(1), (10, 3))
    y = jnp.sin(2 * x[:, :1]) + x[:, 1:2]
    with style.house_style():
        figure, (left, middle, right) = style.panels("Lazy and rich", 3)
        alphas, gaps = 4.0 ** np.arange(6), []
        for alpha, color in zip(alphas, [*style.PALETTE], strict=True):
            run = linearised_path(
                net, params, x, y, learning_rate=0.05, steps=400, scale=alpha, centred=True, record_every=4
            )
            gaps.append((run.relative_motion, run.largest[2]))
            left.plot(run.times, run.output_gap, color=color, lw=1.4, label=rf"$\alpha={alpha:g}$")
        left.set(
            yscale="log",
            ylim=(1e-4, 10),
            xlabel="step",
            ylabel="distance of outputs",
            title="From the linearised path",
        )
        left.legend(ncols=2)
        for values, name, color in zip(
            np.array(gaps).T, ("relative motion", "distance of outputs"), style.PALETTE, strict=False
        ):
            style.measured_points(middle, alphas, values, np.zeros(len(alphas)), color, name)
            style.theory_line(middle, alphas, values[-1] * alphas[-1] / alphas, color)
        middle.set(xscale="log", yscale="log", xlabel=r"output scale $\alpha$", title=r"Lines: $1/\alpha$")
        middle.legend()
        scales = np.array([0.1, 0.3, 1.0, 3.0, 10.0])
        student = fw.MLP((60,), "relu", C_b=0.0, C_W=1.0, lambda_b=0.0)
        sweeps = [
            train_at_scales(
                student,
                student.init(jax.random.key(i), 20),
                teacher_task(jax.random.key(10 + i)),
                scales,
                steps=4000,
            )
            for i in range(2)
        ]
        for i, sweep in enumerate(sweeps):
            color = style.PALETTE[i]
            right.plot(
                scales, sweep.test_losses, "o-", color=color, lw=1.3, ms=4, label=f"test, teacher {i + 1}"
            )
            right.plot(scales, sweep.train_losses, ":", color=color, lw=1.3, label="training")
        right.set(
            xscale="log",
            yscale="log",
            xlabel="scale of the initial weights",
            ylabel="loss",
            title="A teacher of three neurons",
        )
        right.legend()
    return figure


def transfer_picture() -> Figure:
    """Loss over learning rate at several widths, for three optimisers in two parametrisations."""
    widths, steps, batch, networks = (64, 128, 256, 512), 40, 64, 6
    x = jax.random.normal(jax.random.key(0), (steps * batch, 8), jnp.float32)
    y = jnp.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
    grids = {
        ("standard", "sgd"): (-21, -13),
        ("standard", "adam"): (-13, -5),
        ("standard", "muon"): (-9, -2),
        ("mup:64", "sgd"): (-19, -12),
        ("mup:64", "adam"): (-10, -3),
        ("mup:64", "muon"): (-8, -1),
    }
    names = {"sgd": "gradient descent", "adam": "Adam", "muon": "Muon"}
    with style.house_style():
        figure, axes = style.panels(
            "Learning rates across widths: standard parametrisation above, maximal update below", 6
        )
        for panel, ((parametrisation, optimizer), (lowest, highest)) in zip(axes, grids.items(), strict=True):
            found = learning_rate_transfer(
                lambda n, p=parametrisation: fw.MLP((n,) * 3, "relu", 0.0, 2.0, parametrisation=p),
                widths,
                jax.random.key(1),
                networks,
                x,
                y,
                2.0 ** np.arange(lowest, highest + 1),
                steps=steps,
                optimizer=optimizer,
                batch_size=batch,
            )
            best, power = found.best, found.exponent
            print(
                f"{optimizer} {parametrisation}: exponent {power.value:.2f} +- {power.sem:.2f},",
                "best 2^",
                np.round(np.log2(best.value), 2),
                "edge",
                found.on_the_edge,
                flush=True,
            )
            for n, curve, at, color in zip(widths, found.curves, best.value, style.PALETTE, strict=False):
                panel.plot(found.rates, curve, "o-", ms=3, lw=1.2, color=color, label=f"$n={n}$")
                panel.axvline(at, color=color, lw=0.9, ls=":")
            panel.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="training loss")
            panel.set_title(f"{names[optimizer]}: width$^{{\\,{power.value:.2f}\\,\\pm\\,{power.sem:.2f}}}$")
        axes[0].legend()
    return figure


def rescaling_picture() -> Figure:
    """What Newton-Schulz steps do to singular values, and rescaled networks at equal and at right rates."""
    s = np.geomspace(1e-3, 1, 400)
    with style.house_style():
        figure, (left, right) = style.panels("Orthogonal steps, and networks rescaled by 5 and 1/5", 2)
        for steps, color in zip((1, 3, 5), style.PALETTE, strict=False):
            left.plot(
                s, newton_schulz_values(s, steps), color=color, lw=1.5, label=f"Muon's quintic, {steps} steps"
            )
        left.plot(s, newton_schulz_values(s, 15, CUBIC), color=style.GREY, lw=1.5, label="cubic, 15 steps")
        left.axhspan(0.68, 1.14, color=style.GREY, alpha=0.15)
        left.set(xscale="log", xlabel="singular value before", ylabel="after")
        left.legend()
        net = fw.MLP((20,), "relu", C_b=0.0, C_W=2.0, lambda_b=0.0)
        params = net.init(jax.random.key(0), 3)
        x = jax.random.normal(jax.random.key(1), (12, 3))
        factors = (5.0, 0.2)
        for (name, norm, geometry), color in zip(
            (
                ("gradient", "l2", "gradient"),
                ("sign", "linf", "entrywise"),
                ("orthogonal", "spectral", "spectral"),
            ),
            style.PALETTE,
            strict=False,
        ):
            optimiser = steepest_descent(
                4e-4, norm if norm != "spectral" else spectral_or_sign, dual_factor=norm == "l2"
            )
            for rates, dash in ((1.0, "-"), (equivariant_rates(factors, geometry), "--")):
                run = train_rescaled(
                    net,
                    params,
                    factors,
                    x,
                    jnp.sin(x[:, :1]),
                    steps=100,
                    optimizer=optimiser,
                    rate_factors=rates,
                )
                label = f"{name}, equal rates" if rates == 1.0 else f"{name}, right rates"
                right.plot(np.maximum(run.gaps, 1e-16), dash, color=color, lw=1.5, label=label)
        right.set(yscale="log", xlabel="step", ylabel="largest difference of outputs")
        right.legend(ncols=2, loc="center right")
    return figure


def spectral_or_sign(params):
    """Orthogonal steps for matrices, signs for biases."""
    return jax.tree.map(lambda leaf: "spectral" if leaf.ndim == 2 else "linf", params)


def failures_picture() -> Figure:
    """Importance weights along training, and influence against training again."""
    rng = np.random.default_rng(5)
    with style.house_style():
        figure, (left, middle, right) = style.panels("Importance weights and influence functions", 3)
        x = np.array([[2.0, 1.0], [1.0, -1.0], [-3.0, 0.5], [4.0, 4.0], [-2.0, -0.3]])
        y, weights = np.array([1, 1, -1, 1, -1]), np.array([20.0, 1.0, 3.0, 7.0, 0.5])
        times = np.geomspace(3, 400, 25)
        ends = [logistic_flow(x, y, w, times) for w in (weights, np.ones(5))]
        units = [end / np.linalg.norm(end, axis=1, keepdims=True) for end in ends]
        effect = importance_effect(x, y, weights)
        style.theory_line(
            left, times[6:], [effect.difference(t) for t in times[6:]], style.PALETTE[0], "theory"
        )
        measured = np.linalg.norm(units[0] - units[1], axis=1)
        style.measured_points(left, times, measured, np.zeros(len(times)), style.PALETTE[1], "gradient flow")
        style.theory_line(left, times, effect.constant / times, style.GREY, r"$C/\log t$", "--")
        left.set(
            xscale="log",
            yscale="log",
            xlabel=r"$\log t$",
            ylabel="difference of directions",
            title="Logistic regression",
        )
        left.legend()

        x = rng.normal(size=(40, 2))
        y = np.where(x[:, 0] + 0.5 * x[:, 1] ** 2 > 0.3, 1, -1)
        net = fw.MLP((32,), "tanh")
        for decay, color in ((0.0, style.PALETTE[0]), (0.003, style.PALETTE[2]), (0.02, style.PALETTE[1])):
            run = train_weighted(
                net,
                net.init(jax.random.key(0), 2),
                x,
                y,
                np.where(y > 0, 30.0, 1.0),
                np.random.default_rng(6).normal(size=(2000, 2)),
                steps=3000,
                optimizer=optax.adam(0.02),
                weight_decay=decay,
                record_every=10,
            )
            middle.plot(
                run.times[1:],
                100 * run.different_decisions[1:],
                color=color,
                lw=1.4,
                label=f"weight decay {decay:g}",
            )
        middle.set(
            xscale="log",
            xlabel="step",
            ylabel="decisions that weights change, %",
            title="A network, weights 30 to 1",
        )
        middle.legend()

        x, y = load_iris(return_X_y=True)
        order = np.random.default_rng(4).permutation(len(x))
        train, test = order[:60], order[60:]
        x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
        for depth, color in zip((0, 1, 2), style.PALETTE, strict=False):
            net = fw.MLP((5,) * depth, "tanh", C_b=0.0, C_W=1.0, n_out=3)
            params = fit_to_the_end(net, net.init(jax.random.key(1), 4), x[train], y[train], ridge=1e-2)
            logits = np.asarray(net.apply(params, jnp.asarray(x[test])))
            losses = np.log(np.exp(logits).sum(axis=1)) - logits[np.arange(len(test)), y[test]]
            worst = test[[np.argmax(losses)]]
            foretold = influence(
                specimen(net, x[train], y[train], params=params), x[worst], y[worst], ridge=1e-2
            ).changes
            actual = leave_one_out(net, params, x[train], y[train], x[worst], y[worst], ridge=1e-2).changes
            slope = np.vdot(foretold, actual) / np.vdot(foretold, foretold)
            correlation = np.corrcoef(foretold, actual)[0, 1]
            print(f"depth {depth}: slope {slope:.2f}, correlation {correlation:.3f}")
            label = f"{depth} hidden layers: slope {slope:.2f}"
            style.measured_points(right, foretold, actual, np.zeros(60), color, label)
        right.axline((0, 0), slope=1, color=style.GREY, lw=1)
        right.set(
            xlabel="predicted change of a test loss",
            ylabel="after training again",
            title="Leaving out each of 60 irises",
        )
        right.legend()
    return figure


PICTURES = {
    "lazy-and-rich": lazy_picture,
    "learning-rate-transfer": transfer_picture,
    "steepest-descent": rescaling_picture,
    "importance-and-influence": failures_picture,
}


def main() -> None:
    """Write every picture."""
    IMAGES.mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        if sys.argv[1:] and name not in sys.argv[1:]:
            continue
        save_figure(draw(), IMAGES / f"{name}.png")


if __name__ == "__main__":
    main()
