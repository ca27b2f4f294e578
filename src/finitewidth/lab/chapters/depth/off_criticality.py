"""Off criticality, changes of an input vanish or explode exponentially with depth."""

from dataclasses import dataclass

import jax
import numpy as np
from matplotlib.figure import Figure

from finitewidth.architecture import MLP
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import depth_over_width, relative_error, z_score
from finitewidth.lab.framework.estimate import exact, sample_mean
from finitewidth.lab.framework.sources import BOOK, orf_543
from finitewidth.lab.instruments import layer_integrals
from finitewidth.lab.instruments.network_draws import input_of_size, over_layers
from finitewidth.lab.instruments.perturbations import along_depth
from finitewidth.report import style
from finitewidth.statistics.criticality import susceptibilities
from finitewidth.statistics.kernels import trajectory
from finitewidth.statistics.phases import correlation_lengths, fixed_point


@dataclass(frozen=True)
class Phases:
    """tanh networks in the ordered phase, in the chaotic phase, and without bias below criticality."""

    width: int
    depth: int
    draws: int
    ordered: tuple[float, float] = (0.1, 0.8)
    chaotic: tuple[float, float] = (0.05, 4.0)
    vanishing: tuple[float, float] = (0.0, 0.7)

    def network(self, C_b: float, C_W: float) -> MLP:
        """`depth` hidden tanh layers at this initialisation."""
        return MLP((self.width,) * self.depth, "tanh", C_b, C_W)


def _phases_theory(setting: Phases) -> Prediction:
    layers = np.arange(setting.depth)
    prediction = {}
    for phase in ("ordered", "chaotic"):
        C_b, C_W = getattr(setting, phase)
        K = fixed_point("tanh", C_b, C_W)
        chi = susceptibilities("tanh", K, C_W)
        prediction[f"{phase} fixed point"] = np.array(K)
        prediction[f"{phase} parallel"] = float(chi.parallel) ** layers
        prediction[f"{phase} perpendicular"] = float(chi.perpendicular) ** layers
        prediction[f"{phase} correlation lengths"] = np.array(correlation_lengths("tanh", C_b, C_W))
    net = setting.network(*setting.vanishing)
    prediction["vanishing variance"] = np.asarray(trajectory(net, _unit_input(net)).nngp[:-1, 0])
    return prediction


def _unit_input(net: MLP) -> np.ndarray:
    """An input with K^(1) = 1 for a network without biases."""
    return input_of_size(1 / float(net.C_W[0]))


def _phases_measure(setting: Phases, key) -> Measurement:
    measurement = {}
    tanh = layer_integrals.plain_function("tanh")
    for phase, phase_key in zip(("ordered", "chaotic"), jax.random.split(key), strict=True):
        C_b, C_W = getattr(setting, phase)
        net = setting.network(C_b, C_W)
        K = float(layer_integrals.variance_flow(tanh, C_b, C_W, 1.0, 200)[-1])
        measurement[f"{phase} fixed point"] = exact(K)
        drawn = along_depth(net, K, phase_key, setting.draws)
        for name in ("parallel", "perpendicular"):
            measurement[f"{phase} {name}"] = sample_mean(drawn[name])
    net = setting.network(*setting.vanishing)
    moments = over_layers(net, _unit_input(net), jax.random.fold_in(key, 2), setting.draws)
    return measurement | {"vanishing variance": sample_mean(moments[..., 0, 0])}


def _phases_compare(setting: Phases, predicted: Prediction, measured: Measurement) -> Verdict:
    ratio = depth_over_width(np.arange(1, setting.depth + 1), setting.width)
    curves = [f"{phase} {name}" for phase in ("ordered", "chaotic") for name in ("parallel", "perpendicular")]
    checks = [
        z_score(f"{name} by layer", predicted[name], measured[name], ratio * predicted[name])
        for name in (*curves, "vanishing variance")
    ]
    for phase in ("ordered", "chaotic"):
        name = f"{phase} fixed point"
        checks.append(relative_error(name, predicted[name], measured[name].value, 1e-8))
    return Verdict(tuple(checks))


def _phases_figure(setting: Phases, predicted: Prediction, measured: Measurement) -> Figure:
    figure, axes = style.panels("Off criticality everything is exponential in depth (tanh)", 3)
    layers = np.arange(1, setting.depth + 1)
    for panel, phase in zip(axes, ("ordered", "chaotic"), strict=False):
        C_b, C_W = getattr(setting, phase)
        lengths = predicted[f"{phase} correlation lengths"]
        contents = zip(
            ("perpendicular", "parallel"),
            (r"\perp", r"\parallel"),
            lengths[::-1],
            style.PALETTE,
            strict=False,
        )
        for name, symbol, length, color in contents:
            label = rf"$\chi_{{{symbol}}}^{{\,\ell-1}}$, correlation length {length:.2g}"
            style.theory_line(panel, layers, predicted[f"{phase} {name}"], color, label)
            value, sem = measured[f"{phase} {name}"]
            seen = value > 3 * sem
            style.measured_points(panel, layers[seen], value[seen], sem[seen], color)
        panel.set(
            yscale="log", xlabel=r"layer $\ell$", ylabel="change, relative to the first layer",
            title=rf"{phase}: $C_b={C_b:g},\ C_W={C_W:g}$",
        )  # fmt: skip
        low = min(predicted[f"{phase} parallel"].min(), 1e-4)
        panel.set_ylim(low / 3, predicted[f"{phase} perpendicular"].max() * 30)
        style.legend(
            panel, "networks above 3 s.e.", loc="upper right" if phase == "ordered" else "lower left"
        )
    C_b, C_W = setting.vanishing
    style.theory_line(axes[2], layers, predicted["vanishing variance"], style.PALETTE[2])
    value, sem = measured["vanishing variance"]
    style.measured_points(axes[2], layers, value, sem, style.PALETTE[2])
    axes[2].set(
        yscale="log",
        xlabel=r"layer $\ell$",
        ylabel=r"$K^{(\ell)}$",
        title=rf"vanishing: $C_b={C_b:g},\ C_W={C_W:g}$",
    )
    style.legend(axes[2], loc="upper right")
    for panel in axes:
        style.whole_ticks(panel.xaxis)
    return figure


CLAIMS = (
    Claim(
        id="off-criticality-exponential",
        title="off criticality changes vanish or explode as chi^l",
        chapter="Depth",
        statement=(
            "Off criticality a change of the variance behaves as chi_parallel^l and the squared "
            "difference of two inputs as chi_perp^l, over correlation lengths 1/|log chi|: both vanish in "
            "the ordered phase, the second explodes in the chaotic phase, and without biases below "
            "criticality the variance vanishes."
        ),
        source=orf_543("9/19") + f"; {BOOK}, section 5.1",
        quick=Phases(width=1000, depth=12, draws=400),
        full=Phases(width=4000, depth=20, draws=2000),
        theory=_phases_theory,
        measure=_phases_measure,
        compare=_phases_compare,
        figure=_phases_figure,
    ),
)
