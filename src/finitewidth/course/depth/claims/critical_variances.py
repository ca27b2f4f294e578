"""The variance of critical networks falls as a power of depth: tanh and ELU."""

from dataclasses import dataclass

import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.course._instruments import layer_integrals
from finitewidth.course._instruments.network_draws import input_of_size, over_layers
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import depth_over_width, relative_error, z_score
from finitewidth.course._lab.estimate import exact, sample_mean
from finitewidth.course._lab.figures import draw_curves
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import BEYOND, orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.report import style
from finitewidth.report.style import Figure
from finitewidth.statistics.depth.criticality import criticality
from finitewidth.statistics.wide.kernels import trajectory


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

    def theory(self) -> Prediction:
        exponents = criticality(self.activation).exponents
        K = np.asarray(trajectory(self.network(self.long_depth), input_of_size(1.0)).nngp[:-1, 0])
        law = exponents.amplitude * np.asarray(self.long_layers, dtype=float) ** -exponents.variance
        return {"variance": K[: self.depth], "long recursion": K[self.long_layers - 1], "law": law}

    def measure(self, key) -> Measurement:
        moments = over_layers(self.network(self.depth), input_of_size(1.0), key, self.draws)
        flow = layer_integrals.variance_flow(
            layer_integrals.plain_function(self.activation), 0.0, 1.0, 1.0, self.long_depth
        )
        return {
            "variance": sample_mean(moments[..., 0, 0]),
            "long recursion": exact(flow[self.long_layers - 1]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        layers = np.arange(1, self.depth + 1)
        allowed = predicted["variance"] * depth_over_width(layers, self.width)
        deepest = self.long_layers[-1]
        return [
            z_score("variance of networks by layer", predicted["variance"], measured["variance"], allowed),
            relative_error(
                f"law at layer {deepest}",
                predicted["law"][-1],
                measured["long recursion"].value[-1],
                (self.log_term * np.log(deepest) + self.start_term) / deepest,
            ),
            relative_error(
                "recursion by direct integration",
                predicted["long recursion"],
                measured["long recursion"],
                1e-8,
            ),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        name, law = {"tanh": ("tanh", r"$1/(2\ell)$"), "elu": ("ELU", r"$2\pi/\ell^2$")}[self.activation]
        figure, (left, right) = style.panels(
            f"Critical {name} networks: the variance decays as a power of depth", 2
        )
        layers, long = np.arange(1, self.depth + 1), self.long_layers
        near = long <= 2 * self.depth
        draw_curves(left, layers, predicted["variance"][None], measured["variance"][None])
        style.theory_line(left, long[near], predicted["law"][near], style.GREY, law, dash="--")
        left.set(yscale="log", ylabel=r"$K^{(\ell)}$", title=f"width {self.width}, {self.draws} networks")
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
        wrong={"variance": scaled(1.3), "law": scaled(0.5)},
    ),
)
