"""The variance of critical networks falls as a power of depth: tanh and ELU."""

from dataclasses import dataclass

import numpy as np

from finitewidth.architecture import Layer
from finitewidth.lab.framework import BEYOND, draw_curves, exact, orf_543, sample_mean, scaled
from finitewidth.lab.framework.claim import Checks, Claim, Measurement, Prediction
from finitewidth.lab.framework.comparison import depth_over_width, relative_error, z_score
from finitewidth.lab.instruments import layer_integrals
from finitewidth.lab.instruments.network_draws import input_of_size, over_layers
from finitewidth.lab.shapes.networks import equal_layers
from finitewidth.report import style
from finitewidth.report.style import Figure
from finitewidth.statistics.criticality import criticality
from finitewidth.statistics.kernels import trajectory


@dataclass(frozen=True)
class Decay:
    """Variance of critical networks (C_b = 0, C_W = 1, K^(1) = 1) and its law amplitude * depth^-power.

    The law's relative error at depth l is at most (log_term log l + start_term) / l: the next order of the
    flow gives log_term, the layers that the start is ahead of the law give start_term.
    """

    activation: str
    width: int
    depth: int
    draws: int
    long_depth: int
    log_term: float
    start_term: float

    def network(self, depth: int) -> Layer:
        """`depth` hidden layers."""
        return equal_layers(self.width, depth, self.activation, 0.0, 1.0)

    @property
    def long_layers(self) -> np.ndarray:
        """Layers at which the long recursion is recorded."""
        return np.unique(np.geomspace(1, self.long_depth, 25).round().astype(int))


def _decay_theory(setting: Decay) -> Prediction:
    exponents = criticality(setting.activation).exponents
    K = np.asarray(trajectory(setting.network(setting.long_depth), input_of_size(1.0)).nngp[:-1, 0])
    law = exponents.amplitude * np.asarray(setting.long_layers, dtype=float) ** -exponents.variance
    return {"variance": K[: setting.depth], "long recursion": K[setting.long_layers - 1], "law": law}


def _decay_measure(setting: Decay, key) -> Measurement:
    moments = over_layers(setting.network(setting.depth), input_of_size(1.0), key, setting.draws)
    flow = layer_integrals.variance_flow(
        layer_integrals.plain_function(setting.activation), 0.0, 1.0, 1.0, setting.long_depth
    )
    return {
        "variance": sample_mean(moments[..., 0, 0]),
        "long recursion": exact(flow[setting.long_layers - 1]),
    }


def _decay_compare(setting: Decay, predicted: Prediction, measured: Measurement) -> Checks:
    layers = np.arange(1, setting.depth + 1)
    allowed = predicted["variance"] * depth_over_width(layers, setting.width)
    deepest = setting.long_layers[-1]
    return [
        z_score("variance of networks by layer", predicted["variance"], measured["variance"], allowed),
        relative_error(
            f"law at layer {deepest}",
            predicted["law"][-1],
            measured["long recursion"].value[-1],
            (setting.log_term * np.log(deepest) + setting.start_term) / deepest,
        ),
        relative_error(
            "recursion by direct integration", predicted["long recursion"], measured["long recursion"], 1e-8
        ),
    ]


def _decay_figure(setting: Decay, predicted: Prediction, measured: Measurement) -> Figure:
    name, law = {"tanh": ("tanh", r"$1/(2\ell)$"), "elu": ("ELU", r"$2\pi/\ell^2$")}[setting.activation]
    figure, (left, right) = style.panels(
        f"Critical {name} networks: the variance decays as a power of depth", 2
    )
    layers, long = np.arange(1, setting.depth + 1), setting.long_layers
    near = long <= 2 * setting.depth
    draw_curves(left, layers, predicted["variance"][None], measured["variance"][None])
    style.theory_line(left, long[near], predicted["law"][near], style.GREY, law, dash="--")
    left.set(yscale="log", ylabel=r"$K^{(\ell)}$", title=f"width {setting.width}, {setting.draws} networks")
    recursion = measured["long recursion"].times(1 / predicted["law"])
    draw_curves(right, long, (predicted["long recursion"] / predicted["law"])[None], recursion[None])
    right.axhline(1.0, color=style.GREY, ls="--", lw=1.7, label=law)
    right.set(ylabel=r"$K^{(\ell)}$ / law", title="infinite width")
    for axes, points in ((left, "networks"), (right, "direct integration")):
        axes.set(xscale="log", xlabel=r"layer $\ell$")
        style.legend(
            axes, points, error_bars=axes is left, color=style.PALETTE[0], point_color=style.PALETTE[1]
        )
    return figure


CLAIMS = (
    Claim(
        id="tanh-critical-kernel-decay",
        title="critical tanh: K ~ 1/(2l)",
        statement="""At C_b = 0, C_W = 1 tanh has the single fixed point K* = 0, approached as K^(l) = 1/(2l)
        (1 + (5/12) log(l)/l + O(1/l)): nothing is exponential at criticality.""",
        source=orf_543("9/19") + ", tanh (1/(2l) holds at C_W = 1)",
        quick=Decay(
            "tanh", width=1000, depth=100, draws=200, long_depth=3000, log_term=5 / 12, start_term=1.0
        ),
        full=Decay(
            "tanh", width=4000, depth=200, draws=500, long_depth=100_000, log_term=5 / 12, start_term=1.0
        ),
        theory=_decay_theory,
        measure=_decay_measure,
        compare=_decay_compare,
        figure=_decay_figure,
        wrong={"variance": scaled(1.3), "law": scaled(2.0)},
    ),
    Claim(
        id="elu-critical-kernel-decay",
        title="critical ELU: K ~ 2 pi / l^2",
        statement="""At C_b = 0, C_W = 1 the kink of the curvature of ELU gives K' = K - sqrt(2/pi) K^(3/2) +
        (7/8) K^2, so the variance falls as K^(l) = 2 pi / l^2 (1 + O(log(l)/l)), faster than for tanh.""",
        source=f"{BEYOND}: <z^3; z < 0> = -sqrt(2/pi) K^(3/2) is the first correction to <sigma^2> = K",
        quick=Decay("elu", width=1000, depth=60, draws=200, long_depth=3000, log_term=2.5, start_term=5.0),
        full=Decay("elu", width=4000, depth=100, draws=500, long_depth=100_000, log_term=2.5, start_term=5.0),
        theory=_decay_theory,
        measure=_decay_measure,
        compare=_decay_compare,
        figure=_decay_figure,
        wrong={"variance": scaled(1.3), "law": scaled(0.5)},
    ),
)
