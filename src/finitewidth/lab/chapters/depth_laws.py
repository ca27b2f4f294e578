"""Power laws in depth at criticality: the variance of tanh and ELU, the angle between inputs of ReLU."""

from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from finitewidth.architecture import MLP
from finitewidth.lab import one_layer
from finitewidth.lab.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.comparison import depth_over_width, relative_error, z_score
from finitewidth.lab.ensembles import input_of_size, over_layers
from finitewidth.lab.estimate import exact, sample_mean
from finitewidth.report import style
from finitewidth.statistics.criticality import criticality
from finitewidth.statistics.kernels import kernels, trajectory

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
    point = criticality(setting.activation)
    K = np.asarray(trajectory(setting.network(setting.long_depth), input_of_size(1.0)).nngp[:-1, 0])
    law = point.exponents.amplitude * np.asarray(setting.long_layers, dtype=float) ** -point.exponents.variance
    return {
        "variance": K[: setting.depth],
        "long recursion": K[setting.long_layers - 1],
        "law": law,
        "critical C_b and C_W": np.array([point.C_b, point.C_W]),
    }


def _decay_measure(setting: Decay, key) -> Measurement:
    moments = over_layers(setting.network(setting.depth), input_of_size(1.0), key, setting.draws)
    flow = one_layer.variance_flow(
        one_layer.plain_function(setting.activation), 0.0, 1.0, 1.0, setting.long_depth
    )
    return {"variance": sample_mean(moments[..., 0, 0]), "long recursion": exact(flow[setting.long_layers - 1])}


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
    figure, (left, right) = style.panels(f"Critical {name} networks: the variance decays as a power of depth", 2)
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
    style.legend(right, "direct integration", error_bars=False, loc="lower right", color=blue, point_color=red)
    return figure


@dataclass(frozen=True)
class Angle:
    """Two orthogonal inputs in critical ReLU networks."""

    width: int
    depth: int
    draws: int
    long_depth: int

    def network(self, depth: int) -> MLP:
        """`depth` hidden layers at C_b = 0, C_W = 2."""
        return MLP((self.width,) * depth, "relu", 0.0, 2.0)


def _angle_theory(setting: Angle) -> Prediction:
    one_layer_up = setting.network(1)
    angles = [np.pi / 2]
    for _ in range(setting.depth - 1):
        x = np.array([[1.0, 0.0], [np.cos(angles[-1]), np.sin(angles[-1])]])
        K = np.asarray(kernels(one_layer_up, x).nngp)
        angles.append(float(np.arccos(K[0, 1] / np.sqrt(K[0, 0] * K[1, 1]))))
    return {"angle": np.array(angles), "law": 3 * np.pi / np.arange(1, setting.long_depth + 1)}


def _angle_measure(setting: Angle, key) -> Measurement:
    moments = over_layers(setting.network(setting.depth), np.eye(2), key, setting.draws)
    cosine = moments[..., 0, 1] / np.sqrt(moments[..., 0, 0] * moments[..., 1, 1])
    return {
        "angle": sample_mean(np.arccos(np.clip(cosine, -1, 1))),
        "long recursion": exact(_angles_by_integration(setting.long_depth)),
    }


def _angles_by_integration(depth: int) -> np.ndarray:
    """Angles from 1 - cos = <(relu(u) - relu(v))^2>, a polar integral over the directions of (u, v).

    With directions t and t - phi to the two inputs, the integrand is smooth between the four zeros of
    the cosines, and both half-planes of active inputs count the same.
    """
    node, weight = np.polynomial.legendre.leggauss(24)
    angles = np.empty(depth)
    angle = np.pi / 2
    for l in range(depth):
        angles[l] = angle
        one_active = _segment(lambda t: np.cos(t) ** 2, -np.pi / 2, angle - np.pi / 2, node, weight)
        both = _segment(
            lambda t, phi=angle: (np.cos(t) - np.cos(t - phi)) ** 2, angle - np.pi / 2, np.pi / 2, node, weight
        )
        half_chord = np.sqrt((2 * one_active + both) / (2 * np.pi))
        angle = 2 * np.arcsin(half_chord)
    return angles


def _segment(function, start: float, end: float, node: np.ndarray, weight: np.ndarray) -> float:
    half = (end - start) / 2
    return float(half * weight @ function(start + half * (node + 1)))


def _angle_compare(setting: Angle, predicted: Prediction, measured: Measurement) -> Verdict:
    layers = np.arange(1, setting.depth + 1)
    allowed = predicted["angle"] * depth_over_width(layers, setting.width)
    deepest = setting.long_depth
    # 1/phi grows by 1/(3 pi) + phi/(6 pi^2) per layer: 3/2 log l layers, after a start at 3 pi / phi = 6.
    tolerance = (1.5 * np.log(deepest) + 6) / deepest
    long = measured["long recursion"].value
    return Verdict(
        (
            z_score("angle in networks by layer", predicted["angle"], measured["angle"], allowed),
            relative_error("recursion by direct integration", predicted["angle"], long[: setting.depth], 1e-8),
            relative_error(f"law at layer {deepest}", predicted["law"][-1], long[-1], tolerance),
        )
    )


def _angle_figure(setting: Angle, predicted: Prediction, measured: Measurement) -> Figure:
    figure, (axes,) = style.panels("Critical ReLU networks: inputs align as a power of depth")
    layers = np.arange(1, setting.depth + 1)
    shown = np.unique(np.geomspace(1, setting.depth, 12).round().astype(int)) - 1
    blue, red = style.PALETTE[:2]
    long = np.unique(np.geomspace(4, setting.long_depth, 100).round().astype(int))
    value, sem = measured["angle"]
    style.theory_line(axes, long, predicted["law"][long - 1], style.GREY, r"$3\pi/\ell$", dash="--")
    green = style.PALETTE[2]
    axes.plot(long, measured["long recursion"].value[long - 1], ":", color=green, lw=2.4, label="direct integration")
    style.theory_line(axes, layers, predicted["angle"], blue)
    style.measured_points(axes, layers[shown], value[shown], sem[shown], red)
    axes.set(xscale="log", yscale="log", xlabel=r"layer $\ell$", ylabel=r"angle $\phi^{(\ell)}$")
    style.legend(axes, f"networks of width {setting.width}", loc="lower left", color=blue, point_color=red)
    return figure


CLAIMS = (
    Claim(
        id="tanh-critical-kernel-decay",
        title="critical tanh: K ~ 1/(2l)",
        chapter=_CHAPTER,
        statement=(
            "At C_b = 0, C_W = 1 tanh has the single fixed point K* = 0, approached as K^(l) = 1/(2l) "
            "(1 + (5/12) log(l)/l + O(1/l)): nothing is exponential at criticality."
        ),
        source="Lecture notes 003, lecture of 9/19, tanh (1/(2l) holds at C_W = 1)",
        quick=Decay("tanh", width=1000, depth=100, draws=200, long_depth=3000, log_term=5 / 12, start_term=1.0),
        full=Decay("tanh", width=4000, depth=200, draws=500, long_depth=100_000, log_term=5 / 12, start_term=1.0),
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
            "At C_b = 0, C_W = 1 the kink of the curvature of ELU gives K' = K - sqrt(2/pi) K^(3/2) + (7/8) K^2, "
            "so the variance falls as K^(l) = 2 pi / l^2 (1 + O(log(l)/l)), faster than for tanh."
        ),
        source="Derived here: <z^3; z < 0> = -sqrt(2/pi) K^(3/2) is the first correction to <sigma^2> = K",
        quick=Decay("elu", width=1000, depth=60, draws=200, long_depth=3000, log_term=2.5, start_term=5.0),
        full=Decay("elu", width=4000, depth=100, draws=500, long_depth=100_000, log_term=2.5, start_term=5.0),
        theory=_decay_theory,
        measure=_decay_measure,
        compare=_decay_compare,
        figure=_decay_figure,
    ),
    Claim(
        id="relu-angle-decay",
        title="critical ReLU: the angle between inputs ~ 3 pi / l",
        chapter=_CHAPTER,
        statement=(
            "At ReLU criticality two inputs become parallel only as a power of depth: the angle obeys "
            "cos phi' = (sin phi + (pi - phi) cos phi)/pi and falls as 3 pi / l."
        ),
        source="Lecture notes 003, lecture of 9/19, made quantitative here",
        quick=Angle(width=1000, depth=60, draws=200, long_depth=3000),
        full=Angle(width=4000, depth=100, draws=500, long_depth=100_000),
        theory=_angle_theory,
        measure=_angle_measure,
        compare=_angle_compare,
        figure=_angle_figure,
    ),
)
