"""One layer of a random network: its variance, its law given the layer below, its fourth moment."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from matplotlib.figure import Figure

from finitewidth.activations import Activation
from finitewidth.architecture import MLP
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import z_score
from finitewidth.lab.framework.estimate import jackknife, sample_mean, stacked
from finitewidth.lab.framework.sources import orf_543
from finitewidth.lab.instruments.network_draws import input_of_size, over_networks
from finitewidth.networks.mlp import Params, apply
from finitewidth.report import style
from finitewidth.statistics.kernels import trajectory

_CHAPTER = "Initialisation"


@dataclass(frozen=True)
class FanIn:
    """Weight variance n^-power for each power, at every width n."""

    widths: tuple[int, ...]
    draws: int
    powers: tuple[float, ...] = (0.5, 1.0, 1.5)
    C_b: float = 0.5


_UNITS = 1000


def _fan_in_network(setting: FanIn, n: int, power: float) -> tuple[MLP, np.ndarray]:
    net = MLP((), "linear", C_b=setting.C_b, C_W=float(n) ** (1 - power), n_out=_UNITS)
    return net, np.cos(np.arange(n))[None]


def _fan_in_theory(setting: FanIn) -> Prediction:
    variance = [
        [trajectory(*_fan_in_network(setting, n, power)).nngp[0, 0] for n in setting.widths]
        for power in setting.powers
    ]
    return {"variance": np.array(variance)}


def _fan_in_measure(setting: FanIn, key) -> Measurement:
    rows = []
    for power in setting.powers:
        row = []
        for n in setting.widths:
            key, draw_key = jax.random.split(key)
            net, x = _fan_in_network(setting, n, power)
            z = over_networks(net, x, draw_key, -(-setting.draws // _UNITS), apply)
            row.append(sample_mean(z.ravel() ** 2))
        rows.append(stacked(row))
    return {"variance": stacked(rows)}


def _fan_in_compare(setting: FanIn, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict((z_score("variance of a preactivation", predicted["variance"], measured["variance"]),))


def _fan_in_figure(setting: FanIn, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Only weight variance 1/fan-in keeps preactivations of order one")
    variance = measured["variance"]
    for i, (power, color) in enumerate(zip(setting.powers, style.PALETTE, strict=False)):
        label = rf"$\mathrm{{Var}}\,W = n^{{-{power:g}}}$"
        style.theory_line(axes, setting.widths, predicted["variance"][i], color, label)
        style.measured_points(axes, setting.widths, variance.value[i], variance.sem[i], color)
    axes.set(xscale="log", yscale="log", xlabel=r"fan-in $n$", ylabel=r"$\mathrm{Var}\,z$")
    style.plain_ticks(axes.yaxis)
    style.legend(axes, "random layers", loc="upper left")
    return figure


@dataclass(frozen=True)
class ConditionalLayer:
    """A tanh layer of each width under a few output units."""

    widths: tuple[int, ...]
    draws: int
    units: int = 8
    C_b: float = 0.1
    C_W: float = 1.5


def _tanh_squared(z):
    return jnp.tanh(z) ** 2


def _conditional_theory(setting: ConditionalLayer) -> Prediction:
    """Var(K^) = C_W^2 (<tanh^4> - <tanh^2>^2) / n, exact for one hidden layer of any width."""
    C_b, C_W, x = setting.C_b, setting.C_W, input_of_size(0.6)
    K = float(trajectory(MLP((1,), "tanh", C_b, C_W), x).nngp[-1, 0])
    second = (K - C_b) / C_W
    squares = MLP((1,), Activation(_tanh_squared), C_b=[C_b, 0.0], C_W=[C_W, 1.0])
    fourth = float(trajectory(squares, x).nngp[-1, 0])
    fluctuation = C_W**2 * (fourth - second**2) / (np.array(setting.widths) * K**2)
    return {"excess kurtosis": 3 * fluctuation, "shared variance": fluctuation}


def _unit_moments(net: MLP, params: Params, x: Float[Array, "1 d"]) -> Float[Array, " 3"]:
    """Averages over units of z^2 and z^4, and over pairs of different units of z_1^2 z_2^2."""
    square = apply(net, params, x)[0] ** 2
    units = len(square)
    pairs = (jnp.sum(square) ** 2 - jnp.sum(square**2)) / (units * (units - 1))
    return jnp.stack([jnp.mean(square), jnp.mean(square**2), pairs])


def _conditional_measure(setting: ConditionalLayer, key) -> Measurement:
    kurtosis, shared = [], []
    for n, draw_key in zip(setting.widths, jax.random.split(key, len(setting.widths)), strict=True):
        net = MLP((n,), "tanh", setting.C_b, setting.C_W, n_out=setting.units)
        moments = over_networks(net, input_of_size(0.6), draw_key, setting.draws, _unit_moments)
        kurtosis.append(jackknife(moments, lambda mean: mean[1] / mean[0] ** 2 - 3))
        shared.append(jackknife(moments, lambda mean: mean[2] / mean[0] ** 2 - 1))
    return {"excess kurtosis": stacked(kurtosis), "shared variance": stacked(shared)}


def _conditional_compare(setting: ConditionalLayer, predicted: Prediction, measured: Measurement) -> Verdict:
    names = {
        "excess kurtosis": "excess kurtosis of a unit",
        "shared variance": "covariance of two squared units",
    }
    return Verdict(tuple(z_score(text, predicted[name], measured[name]) for name, text in names.items()))


def _conditional_figure(setting: ConditionalLayer, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Units share one random variance")
    labels = {
        "excess kurtosis": r"$\langle z_1^4\rangle/\langle z^2\rangle^2-3$",
        "shared variance": r"$\langle z_1^2z_2^2\rangle/\langle z^2\rangle^2-1$",
    }
    for (name, label), color in zip(labels.items(), style.PALETTE, strict=False):
        style.theory_line(axes, setting.widths, predicted[name], color, label)
        style.measured_points(axes, setting.widths, measured[name].value, measured[name].sem, color)
    axes.set(
        xscale="log", yscale="log", xlabel=r"hidden width $n$", ylabel="departure from independent Gaussians"
    )
    style.plain_ticks(axes.xaxis, setting.widths)
    style.plain_ticks(axes.yaxis)
    style.legend(axes, loc="upper right")
    return figure


@dataclass(frozen=True)
class FourthMoment:
    """ReLU networks with these hidden widths."""

    architectures: tuple[tuple[int, ...], ...]
    draws: int


def _fourth_power(net, params, x):
    return jnp.mean(apply(net, params, x) ** 4)


def _fourth_moment_theory(setting: FourthMoment) -> Prediction:
    x = input_of_size(1.0, n_in=2)
    K = [float(trajectory(MLP(hidden, "relu", 0.0, 2.0), x).nngp[-1, 0]) for hidden in setting.architectures]
    growth = [np.prod([1 + 5 / n for n in hidden]) for hidden in setting.architectures]
    return {"fourth moment": 3 * np.square(K) * np.array(growth)}


def _fourth_moment_measure(setting: FourthMoment, key) -> Measurement:
    moments = []
    for hidden in setting.architectures:
        key, draw_key = jax.random.split(key)
        net = MLP(hidden, "relu", 0.0, 2.0, n_out=2)
        x = input_of_size(1.0, n_in=2)
        moments.append(sample_mean(over_networks(net, x, draw_key, setting.draws, _fourth_power)))
    return {"fourth moment": stacked(moments)}


def _fourth_moment_compare(setting: FourthMoment, predicted: Prediction, measured: Measurement) -> Verdict:
    return Verdict((z_score("E[z^4]", predicted["fourth moment"], measured["fourth moment"]),))


def _fourth_moment_figure(setting: FourthMoment, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Exact fourth moment of ReLU networks")
    place = np.arange(len(setting.architectures))
    exponential = [3 * 2**2 * np.exp(sum(5 / n for n in hidden)) for hidden in setting.architectures]
    blue, red = style.PALETTE[:2]
    axes.hlines(predicted["fourth moment"], place - 0.3, place + 0.3, color=blue, lw=1.7)
    axes.hlines(
        exponential, place - 0.3, place + 0.3, color=style.GREY, ls=":", lw=1.5,
        label=r"$3K^2e^{\,5\sum 1/n}$",
    )  # fmt: skip
    value, sem = measured["fourth moment"]
    style.measured_points(axes, place, value, sem, red)
    names = [_width_label(hidden) for hidden in setting.architectures]
    axes.set(yscale="log", xlabel="hidden widths", ylabel=r"$\langle z^4\rangle$")
    axes.set_xticks(place, names)
    style.plain_ticks(axes.yaxis)
    style.legend(axes, loc="upper left", color=blue, point_color=red)
    return figure


def _width_label(hidden: tuple[int, ...]) -> str:
    """ "6 – 5 – 7", or "20 (5 layers)" for many layers of one width."""
    if len(hidden) > 3 and len(set(hidden)) == 1:
        return f"{hidden[0]} ({len(hidden)} layers)"
    return " – ".join(str(n) for n in hidden)


CLAIMS = (
    Claim(
        id="fan-in-scaling",
        title="weight variance C_W/fan-in keeps Var z of order one",
        chapter=_CHAPTER,
        statement=(
            "A preactivation of a layer with inputs of order one has variance C_b + Var(W) |x|^2, which "
            "is of order one at every width only if the weight variance is C_W/fan-in."
        ),
        source=orf_543("9/14") + " (the width of the incoming layer)",
        quick=FanIn((10, 100, 1000), draws=4000),
        full=FanIn((10, 30, 100, 300, 1000, 3000), draws=10_000),
        theory=_fan_in_theory,
        measure=_fan_in_measure,
        compare=_fan_in_compare,
        figure=_fan_in_figure,
    ),
    Claim(
        id="conditional-gaussian-layer",
        title="given a layer, the next one is Gaussian with a shared random variance",
        chapter=_CHAPTER,
        statement=(
            "Given layer l, the units of layer l+1 are independent Gaussians with the shared random "
            "covariance K^ = C_b + (C_W/n) sum_j sigma_ja sigma_jb, so a unit has excess kurtosis 3 "
            "Var(K^)/E[K^]^2 and the squares of two units have covariance Var(K^)."
        ),
        source=orf_543("9/21") + " (covariance block C_W/n_l, not C_W)",
        quick=ConditionalLayer((4, 8, 16), draws=50_000),
        full=ConditionalLayer((4, 8, 16, 32, 64, 128), draws=1_000_000),
        theory=_conditional_theory,
        measure=_conditional_measure,
        compare=_conditional_compare,
        figure=_conditional_figure,
    ),
    Claim(
        id="relu-output-fourth-moment",
        title="E[z^4] = 3 K^2 prod(1 + 5/n) for ReLU",
        chapter=_CHAPTER,
        statement=(
            "A ReLU network with C_W = 2, C_b = 0 has output fourth moment 3 K^2 prod_l (1 + 5/n_l) at "
            "any finite width, the product running over hidden layers; exp(5 sum 1/n) is its leading "
            "approximation."
        ),
        source=orf_543("11/30"),
        quick=FourthMoment(((16,), (10, 10), (6, 5, 7)), draws=100_000),
        full=FourthMoment(((16,), (10, 10), (6, 5, 7), (20,) * 5), draws=1_000_000),
        theory=_fourth_moment_theory,
        measure=_fourth_moment_measure,
        compare=_fourth_moment_compare,
        figure=_fourth_moment_figure,
    ),
)
