"""The angle between two inputs of critical ReLU networks falls as a power of depth."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.course._instruments.network_draws import over_layers
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import depth_over_width, relative_error, z_score
from finitewidth.course._lab.estimate import exact, sample_mean
from finitewidth.course._lab.figures import draw_curves
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.report import style
from finitewidth.report.style import Figure
from finitewidth.statistics.wide.kernels import kernels


@dataclass(frozen=True)
class Angle:
    """Two orthogonal inputs in critical ReLU networks."""

    width: int
    depth: int
    draws: int
    long_depth: int

    def network(self, depth: int) -> Layer:
        """`depth` hidden layers at C_b = 0, C_W = 2."""
        return equal_layers(self.width, depth, "relu", 0.0, 2.0)

    @property
    def long_layers(self) -> np.ndarray:
        """Layers at which the long recursion is recorded."""
        return np.unique(np.geomspace(1, self.long_depth, 60).round().astype(int))

    def theory(self) -> Prediction:
        one_layer_up = self.network(1)
        angles = [np.pi / 2]
        for _ in range(self.depth - 1):
            x = np.array([[1.0, 0.0], [np.cos(angles[-1]), np.sin(angles[-1])]])
            K = np.asarray(kernels(one_layer_up, x).nngp)
            angles.append(float(np.arccos(K[0, 1] / np.sqrt(K[0, 0] * K[1, 1]))))
        return {"angle": np.array(angles), "law": 3 * np.pi / self.long_layers}

    def measure(self, key) -> Measurement:
        moments = over_layers(self.network(self.depth), np.eye(2), key, self.draws)
        cosine = moments[..., 0, 1] / np.sqrt(moments[..., 0, 0] * moments[..., 1, 1])
        return {
            "angle": sample_mean(np.arccos(np.clip(cosine, -1, 1))),
            "long recursion": exact(_angles_by_integration(self.long_depth)[self.long_layers - 1]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        layers = np.arange(1, self.depth + 1)
        allowed = predicted["angle"] * depth_over_width(layers, self.width)
        deepest = self.long_depth
        # 1/phi grows by 1/(3 pi) + phi/(6 pi^2) per layer: 3/2 log l layers, after a start at 3 pi / phi = 6.
        tolerance = (1.5 * np.log(deepest) + 6) / deepest
        long = measured["long recursion"].value
        near = self.long_layers <= self.depth
        shared = predicted["angle"][self.long_layers[near] - 1]
        return [
            z_score("angle in networks by layer", predicted["angle"], measured["angle"], allowed),
            relative_error("recursion by direct integration", shared, long[near], 1e-8),
            relative_error(f"law at layer {deepest}", predicted["law"][-1], long[-1], tolerance),
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        figure, (axes,) = style.panels("Critical ReLU networks: inputs align as a power of depth")
        blue, red, green = style.PALETTE[:3]
        long, law = self.long_layers, predicted["law"]
        late = long >= 4
        style.theory_line(axes, long[late], law[late], style.GREY, r"$3\pi/\ell$", dash="--")
        axes.plot(
            long, measured["long recursion"].value, ":", color=green, lw=2.4, label="direct integration"
        )
        draw_curves(axes, np.arange(1, self.depth + 1), predicted["angle"][None], measured["angle"][None])
        axes.set(xscale="log", yscale="log", xlabel=r"layer $\ell$", ylabel=r"angle $\phi^{(\ell)}$")
        style.legend(axes, f"networks of width {self.width}", loc="lower left", color=blue, point_color=red)
        return figure


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
            lambda t, phi=angle: (np.cos(t) - np.cos(t - phi)) ** 2,
            angle - np.pi / 2,
            np.pi / 2,
            node,
            weight,
        )
        half_chord = np.sqrt((2 * one_active + both) / (2 * np.pi))
        angle = 2 * np.arcsin(half_chord)
    return angles


def _segment(function: Callable, start: float, end: float, node: np.ndarray, weight: np.ndarray) -> float:
    half = (end - start) / 2
    return float(half * weight @ function(start + half * (node + 1)))


CLAIMS = (
    Claim(
        id="relu-angle-decay",
        title="critical ReLU: the angle between inputs ~ 3 pi / l",
        statement="""At ReLU criticality two inputs become parallel only as a power of depth: the angle obeys
        cos phi' = (sin phi + (pi - phi) cos phi)/pi and falls as 3 pi / l.""",
        source=orf_543("9/19") + ", made quantitative here",
        quick=Angle(width=1000, depth=60, draws=200, long_depth=3000),
        full=Angle(width=4000, depth=100, draws=500, long_depth=100_000),
        wrong={"angle": scaled(1.2), "law": scaled(2 / 3)},
    ),
)
