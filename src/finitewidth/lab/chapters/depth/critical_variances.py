"""The variance of critical networks falls as a power of depth: tanh and ELU."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from finitewidth.architecture import MLP
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import depth_over_width, relative_error, z_score
from finitewidth.lab.framework.estimate import exact, sample_mean
from finitewidth.lab.framework.sources import BEYOND, orf_543
from finitewidth.lab.instruments import layer_integrals
from finitewidth.lab.instruments.network_draws import input_of_size, over_layers
from finitewidth.report import style
from finitewidth.statistics.criticality import criticality
from finitewidth.statistics.kernels import trajectory

_CHAPTER = "Depth"


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

    def network(self, depth: int) -> MLP:
        """`depth` hidden layers."""
        return MLP((self.width,) * depth, self.activation, 0.0, 1.0)

    @property
    def long_layers(self) -> np.ndarray:
        """Layers at which the long recursion is recorded."""
        return np.unique(np.geomspace(1, self.long_depth, 25).round().astype(int))


def _decay_theory(setting: Decay) -> Prediction:
    exponents = criticality(setting.activation).exponents
    K = np.asarray(trajectory(setting.network(setting.long_depth), input_of_size(1.0)).nngp[:-1, 0])
    law = exponents.amplitude * np.asarray(setting.long_layers, dtype=float) ** -exponents.variance
    return {
        "variance": K[: setting.depth],
        "long recursion": K[setting.long_layers - 1],
        "law": law,
    }


def _decay_measure(setting: Decay, key) -> Measurement:
    moments = over_layers(setting.network(setting.depth), input_of_size(1.0), key, setting.draws)
    flow = layer_integrals.variance_flow(
        layer_integrals.plain_function(setting.activation), 0.0, 1.0, 1.0, setting.long_depth
    )
    return {
        "variance": sample_mean(moments[..., 0, 0]),
        "long recursion": exact(flow[setting.long_layers - 1]),
    }


def _decay_compare(setting: Decay, predicted: Prediction, measured: Measurement) -> Verdict:
    layers = np.arange(1, setting.depth + 1)
    allowed = predicted["variance"] * depth_over_width(layers, setting.width)
    deepest = setting.long_layers[-1]
    return Verdict(
        (
            z_score("variance of networks by layer", predicted["variance"], measured["variance"], allowed),
            relative_error(
                f"law at layer {deepest}",
                predicted["law"][-1],
                measured["long recursion"].value[-1],
                (setting.log_term * np.log(deepest) + setting.start_term) / deepest,
            ),
            relative_error(
                "recursion by direct integration",
                predicted["long recursion"],
                measured["long recursion"].value,
                1e-8,
            ),
        )
    )


def _decay_figure(setting: Decay, predicted: Prediction, measured: Measurement) -> Figure:
    name = {"elu": "ELU"}.get(setting.activation, setting.activation)
    law_text = {"tanh": r"$1/(2\ell)$", "elu": r"$2\pi/\ell^2$"}[setting.activation]
    figure, (left, right) = style.panels(
        f"Critical {name} networks: the variance decays as a power of depth", 2
    )
    layers = np.arange(1, setting.depth + 1)
    shown = np.unique(np.geomspace(1, setting.depth, 12).round().astype(int)) - 1
    blue, red = style.PALETTE[:2]
    value, sem = measured["variance"]
    long = setting.long_layers
    near = long <= 2 * setting.depth
    style.theory_line(left, long[near], predicted["law"][near], style.GREY, law_text, dash="--")
    style.theory_line(left, layers, predicted["variance"], blue)
    style.measured_points(left, layers[shown], value[shown], sem[shown], red)
    left.set(
        xscale="log", yscale="log", xlabel=r"layer $\ell$", ylabel=r"$K^{(\ell)}$",
        title=f"width {setting.width}, {setting.draws} networks",
    )  # fmt: skip
    style.legend(left, loc="lower left", color=blue, point_color=red)
    right.axhline(1.0, color=style.GREY, ls="--", lw=1.7, label=law_text)
    style.theory_line(right, long, predicted["long recursion"] / predicted["law"], blue)
    ratio = measured["long recursion"].value / predicted["law"]
    style.measured_points(right, long, ratio, np.zeros_like(ratio), red)
    right.set(xscale="log", xlabel=r"layer $\ell$", ylabel=r"$K^{(\ell)}$ / law", title="infinite width")
    style.legend(
        right, "direct integration", error_bars=False, loc="center right", color=blue, point_color=red
    )
    return figure


CLAIMS = (
    Claim(
        id="tanh-critical-kernel-decay",
        title="critical tanh: K ~ 1/(2l)",
        chapter=_CHAPTER,
        statement=(
            "At C_b = 0, C_W = 1 tanh has the single fixed point K* = 0, approached as K^(l) = 1/(2l) (1 "
            "+ (5/12) log(l)/l + O(1/l)): nothing is exponential at criticality."
        ),
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
    ),
    Claim(
        id="elu-critical-kernel-decay",
        title="critical ELU: K ~ 2 pi / l^2",
        chapter=_CHAPTER,
        statement=(
            "At C_b = 0, C_W = 1 the kink of the curvature of ELU gives K' = K - sqrt(2/pi) K^(3/2) + "
            "(7/8) K^2, so the variance falls as K^(l) = 2 pi / l^2 (1 + O(log(l)/l)), faster than for "
            "tanh."
        ),
        source=f"{BEYOND}: <z^3; z < 0> = -sqrt(2/pi) K^(3/2) is the first correction to <sigma^2> = K",
        quick=Decay("elu", width=1000, depth=60, draws=200, long_depth=3000, log_term=2.5, start_term=5.0),
        full=Decay("elu", width=4000, depth=100, draws=500, long_depth=100_000, log_term=2.5, start_term=5.0),
        theory=_decay_theory,
        measure=_decay_measure,
        compare=_decay_compare,
        figure=_decay_figure,
    ),
)
