"""Critical points at a finite variance, attracting from one side only: GELU and SiLU."""

from dataclasses import dataclass

import jax
import numpy as np

from finitewidth.course._instruments import layer_integrals
from finitewidth.course._instruments.perturbations import along_depth
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import depth_over_width, relative_error, z_score
from finitewidth.course._lab.estimate import Estimate, exact, sample_mean
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import scaled
from finitewidth.statistics.depth.criticality import criticality, susceptibilities


@dataclass(frozen=True)
class HalfStable:
    """Networks at the critical point of each activation, which lies between the two variances."""

    width: int
    depth: int
    draws: int
    brackets: tuple[tuple[str, float, float], ...] = (("gelu", 1.0, 10.0), ("silu", 5.0, 40.0))

    def theory(self) -> Prediction:
        prediction = {}
        for name, _, _ in self.brackets:
            point = criticality(name)
            prediction[f"{name} point"] = np.array([point.C_b, point.C_W, point.K_star])
            prediction[f"{name} curvature"] = np.array(-2 / point.exponents.amplitude)
            chi = susceptibilities(name, point.K_star, point.C_W)
            layers = np.arange(self.depth)
            prediction[f"{name} variance"] = np.full(self.depth, point.K_star)
            prediction[f"{name} parallel"] = float(chi.parallel) ** layers
            prediction[f"{name} perpendicular"] = float(chi.perpendicular) ** layers
        return prediction

    def measure(self, key) -> Measurement:
        measurement: dict[str, Estimate] = {}
        keys = jax.random.split(key, len(self.brackets))
        for (name, low, high), draw_key in zip(self.brackets, keys, strict=True):
            function = layer_integrals.plain_function(name)
            K = layer_integrals.critical_variance(name, low, high)
            C_W = 1 / layer_integrals.perpendicular_response(function, 1.0, K)
            C_b = K - layer_integrals.variance_map(function, 0.0, C_W, K)
            measurement[f"{name} point"] = exact(np.array([C_b, C_W, K]))
            measurement[f"{name} curvature"] = exact(layer_integrals.curvature(function, C_W, K))
            net = equal_layers(self.width, self.depth, name, C_b, C_W)
            for quantity, samples in along_depth(net, K, draw_key, self.draws).items():
                measurement[f"{name} {quantity}"] = sample_mean(samples)
        return measurement

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        ratio = depth_over_width(np.arange(1, self.depth + 1), self.width)
        for name, _, _ in self.brackets:
            point, bend = f"{name} point", f"{name} curvature"
            # K* is where a slope of a few 1e-6 crosses zero, so averages good to 1e-13 locate it to 1e-7;
            # extrapolated second differences of them are good to the same.
            yield relative_error(f"{name}: C_b, C_W, K*", predicted[point], measured[point], 1e-6)
            yield relative_error(f"{name}: curvature at K*", predicted[bend], measured[bend], 1e-6)
            for quantity in _QUANTITIES:
                curve = predicted[f"{name} {quantity}"]
                data = measured[f"{name} {quantity}"]
                yield z_score(f"{name}: {quantity} by layer", curve, data, ratio * curve)


_QUANTITIES = ("variance", "parallel", "perpendicular")


CLAIMS = (
    Claim(
        id="critical-initialisation-gelu-silu",
        title="GELU and SiLU are critical at one finite variance",
        statement="""GELU and SiLU have one critical point with C_b > 0 and finite K*: K* = (3 + sqrt(17))/2
        for GELU and 14.32 for SiLU. It is half-stable: the variance map has slope one and a curvature there,
        so it attracts from one side only, and variance and perturbations persist with depth.""",
        source=f"{BEYOND}: {BOOK}, section 5.3.4",
        quick=HalfStable(width=1000, depth=20, draws=200),
        full=HalfStable(width=4000, depth=50, draws=1000),
        figure=Curves("depth", r"layer $\ell$"),
        wrong={"gelu point": scaled(1.01), "silu curvature": scaled(-1.0), "silu variance": scaled(1.2)},
    ),
)
