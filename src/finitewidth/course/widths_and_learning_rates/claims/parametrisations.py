"""Lazy and feature-learning widths: what moves in training, and which learning rate is best."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, compare_each, z_score
from finitewidth.course._lab.estimate import exact, jackknife, propagated, stacked
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.shapes.orders import fitted_power
from finitewidth.course._lab.sources import IEMS_402, orf_543
from finitewidth.course._lab.wrong import scaled, shifted
from finitewidth.networks.training.ensembles import train_ensemble
from finitewidth.networks.training.learning_rates import best_rate, learning_rate_sweep
from finitewidth.report import style
from finitewidth.report.style import Figure


@dataclass(frozen=True)
class WeightMovement:
    """One hidden layer trained on a few points in both parametrisations, at every width."""

    widths: tuple[int, ...]
    networks: int
    steps: int = 100
    eta: float = 0.1
    points: int = 8

    def theory(self) -> Prediction:
        """Exponents of a weight's movement: the step eta/n_0 times a gradient of order n^(-1/2), or n times
        that step times a gradient of order 1/n."""
        return {f"{name} exponent": np.array(slope) for name, slope in _MOVING.items()}

    def measure(self, key) -> Measurement:
        data_key, net_key = jax.random.split(key)
        x = jax.random.normal(data_key, (self.points, 3))
        y = jnp.sin(2 * x[:, :1]) + x[:, 1:2]
        found = {}
        for name in _MOVING:
            movement = []
            for n in self.widths:
                net = equal_layers(n, 1, "tanh", 0.0, 1.0, lambda_b=0.0, parametrisation=name)
                trained = train_ensemble(
                    net,
                    jax.random.fold_in(net_key, n),
                    self.networks,
                    x,
                    y,
                    steps=self.steps,
                    learning_rate=self.eta,
                    record={"weights": _first_weights},
                    record_every=self.steps,
                )
                weights = trained.recorded["weights"]
                squares = np.mean((weights[:, -1] - weights[:, 0]) ** 2, axis=(1, 2))
                movement.append(jackknife(squares, np.sqrt))
            found[f"{name} movement"] = stacked(movement)
            found[f"{name} exponent"] = propagated(
                lambda sizes: fitted_power(np.array(self.widths), sizes), found[f"{name} movement"]
            )
        return found

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        title, ylabel = (
            "Lazy in one parametrisation, not in the other",
            "rms movement of a first-layer weight",
        )
        laws = {name: (measured[f"{name} movement"], predicted[f"{name} exponent"]) for name in _MOVING}
        return power_laws(title, self.widths, laws, r"width $n$", ylabel)


_MOVING = {"ntk": -0.5, "mean-field": 0.0}


def _first_weights(params):
    return params[0].weight


@dataclass(frozen=True)
class LearningRates:
    """Adam on three hidden ReLU layers: losses over a grid of learning rates, at every width.

    Every batch is new and the loss is that of points held out, so that it stays well above zero and its
    minimum over learning rates is sharp. A small set that is fitted to the end has no such minimum.
    """

    widths: tuple[int, ...]
    networks: int
    exponents: tuple[int, int]
    steps: int = 100
    batch_size: int = 64
    held_out: int = 1024
    base_width: int = 32

    @property
    def grid(self) -> np.ndarray:
        return 2.0 ** np.arange(self.exponents[0], self.exponents[1] + 1)

    def theory(self) -> Prediction:
        """Between which exponents of the width: about 1/n, as steps of hidden layers add up over n inputs.

        How far the optimum is from that depends on the task, less so the difference of both parametrisations.
        """
        return {
            "least standard exponent": np.array(-1.4),
            "largest standard exponent": np.array(-0.6),
            "least difference": np.array(0.7),
            "largest difference": np.array(1.4),
        }

    def measure(self, key) -> Measurement:
        data_key, test_key, net_key = jax.random.split(key, 3)
        data = _task(data_key, self.steps * self.batch_size)
        held_out = _task(test_key, self.held_out)
        curves: dict[str, list[np.ndarray]] = {name: [] for name in _TRANSFER}
        for n in self.widths:
            key = jax.random.fold_in(net_key, n)
            for name in _TRANSFER:
                if name == "mup" and n == self.base_width:
                    # Both parametrisations are the same here.
                    curves[name].append(curves["standard"][-1])
                    continue
                parametrisation = name if name == "standard" else f"mup:{self.base_width}"
                curves[name].append(_log_losses(n, parametrisation, self, key, data, held_out))
        # (networks, parametrisations, widths, rates): a network has the same start at every rate.
        drawn = np.stack([np.stack(by_width, axis=1) for by_width in curves.values()], axis=1)
        optimum = jackknife(drawn, lambda mean: _optima(self, mean))
        slopes = jackknife(drawn, lambda mean: _slopes(self, _optima(self, mean)))
        return {
            "losses": exact(2.0 ** drawn.mean(axis=0)),
            "optimum": optimum,
            "standard exponent": slopes[0],
            "difference": slopes[1],
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {
            "standard exponent": "exponent of the best learning rate, standard",
            "difference": "exponent of the best learning rate, mup less standard",
        }
        for name, text in texts.items():
            ends = (predicted[f"{end} {name}"] for end in ("least", "largest"))
            yield z_score(text, np.clip(measured[name].value, *ends), measured[name])

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, axes = style.panels("The best learning rate shifts with width, or stays", count=2)
        titles = {"standard": "standard parametrisation", "mup": "maximal update"}
        for p, (panel, title) in enumerate(zip(axes, titles.values(), strict=True)):
            for n, curve, color in zip(self.widths, measured["losses"].value[p], style.PALETTE, strict=False):
                panel.plot(self.grid, curve, "o-", ms=3.5, lw=1.2, color=color, label=rf"$n={n}$")
            for optimum, color in zip(measured["optimum"].value[p], style.PALETTE, strict=False):
                panel.axvline(2.0**optimum, color=color, lw=0.9, ls=":")
            panel.set(xscale="log", yscale="log", xlabel="learning rate", ylabel="loss held out", title=title)
        axes[1].legend(loc="best")
        return figure


_TRANSFER = ("standard", "mup")


def _optima(setting: LearningRates, curves: Float[np.ndarray, "p widths rates"]) -> np.ndarray:
    """Base-two logarithms of the best learning rates."""
    best = [[best_rate(setting.grid, 2.0**curve) for curve in by_width] for by_width in curves]
    return np.log2(best)


def _slopes(setting: LearningRates, optima: Float[np.ndarray, "p widths"]) -> np.ndarray:
    """Exponent of the width in the standard parametrisation, and how much larger the other one is."""
    standard, mup = np.polyfit(np.log2(setting.widths), optima.T, 1)[0]
    return np.array([standard, mup - standard])


def _task(key, points: int) -> tuple[Array, Array]:
    x = jax.random.normal(key, (points, 8), jnp.float32)
    return x, jnp.sin(2 * x[:, :1]) * x[:, 1:2] + jnp.cos(2 * x[:, 3:4]) * x[:, 2:3]


def _log_losses(
    n: int, parametrisation: str, setting: LearningRates, key, data, held_out
) -> Float[np.ndarray, "networks rates"]:
    """Base-two logarithms of the networks' losses on points held out."""
    net = equal_layers(n, 3, "relu", 0.0, 2.0, parametrisation=parametrisation)
    (x, y), (x_test, y_test) = data, held_out
    sweep = learning_rate_sweep(
        net,
        key,
        setting.networks,
        x,
        y,
        x_test,
        y_test,
        setting.grid,
        steps=setting.steps,
        optimizer="adam",
        batch_size=setting.batch_size,
    )
    return np.log2(sweep.losses)


CLAIMS = (
    Claim(
        id="lazy-versus-mean-field",
        title="weights move like n^(-1/2) in the NTK scaling and by order one in the mean-field scaling",
        statement="""With outputs scaled by n^(-1/2) and a step that does not depend on the width, every
        hidden weight moves by order n^(-1/2) in training; with outputs scaled by 1/n and a step proportional
        to n it moves by order one at any width.""",
        source=orf_543("pathologies") + " (mean-field scaling needs the step in proportion to n)",
        quick=WeightMovement((64, 1024), networks=48),
        full=WeightMovement((64, 256, 1024, 4096, 16384), networks=32),
        compare=compare_each(
            {f"{name} exponent": f"exponent of the movement of a weight, {name}" for name in _MOVING},
            absolute_error,
            0.05,
        ),
        wrong={"ntk exponent": scaled(0.0), "mean-field exponent": shifted(-0.5)},
    ),
    Claim(
        id="lr-transfer",
        title="the best learning rate shifts with width, except in the maximal-update parametrisation",
        statement="""Trained with Adam on new batches and judged on points held out, a network in the standard
        parametrisation has a best learning rate that falls about like 1/n. In the maximal-update
        parametrisation (rates of hidden and output weights and the output's initial size all times 1/n) its
        exponent is larger by 0.7 to 1.4; whether it vanishes depends on the task.""",
        source=f"{IEMS_402} (larger networks, smaller rates: standard parametrisation)",
        quick=LearningRates((32, 128), networks=10, exponents=(-9, -5)),
        full=LearningRates((32, 64, 128, 256), networks=12, exponents=(-12, -3)),
        bounds={
            "least standard exponent": "below",
            "largest standard exponent": "above",
            "least difference": "below",
            "largest difference": "above",
        },
        wrong={"largest standard exponent": scaled(10.0), "largest difference": scaled(0.0)},
    ),
)
