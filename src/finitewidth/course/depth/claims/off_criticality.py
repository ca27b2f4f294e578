"""Off criticality, changes of an input vanish or explode exponentially with depth."""

from dataclasses import dataclass

import jax
import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.course._instruments import layer_integrals
from finitewidth.course._instruments.network_draws import input_of_size, over_layers
from finitewidth.course._instruments.perturbations import along_depth
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import depth_over_width, relative_error, z_score
from finitewidth.course._lab.estimate import exact, sample_mean
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import BOOK, orf_543
from finitewidth.course._lab.wrong import power, scaled
from finitewidth.statistics.depth.criticality import susceptibilities
from finitewidth.statistics.depth.phases import fixed_point
from finitewidth.statistics.wide.kernels import trajectory


@dataclass(frozen=True)
class Phases:
    """tanh networks in the ordered phase, in the chaotic phase, and without bias below criticality."""

    width: int
    depth: int
    draws: int
    ordered: tuple[float, float] = (0.1, 0.8)
    chaotic: tuple[float, float] = (0.05, 4.0)
    vanishing: tuple[float, float] = (0.0, 0.7)

    def network(self, C_b: float, C_W: float) -> Layer:
        """`depth` hidden tanh layers at this initialisation."""
        return equal_layers(self.width, self.depth, "tanh", C_b, C_W)

    @property
    def unit_input(self) -> np.ndarray:
        """An input with K^(1) = 1 where there are no biases."""
        return input_of_size(1 / self.vanishing[1])

    def theory(self) -> Prediction:
        layers = np.arange(self.depth)
        prediction = {}
        for phase in ("ordered", "chaotic"):
            C_b, C_W = getattr(self, phase)
            K = fixed_point("tanh", C_b, C_W)
            chi = susceptibilities("tanh", K, C_W)
            prediction[f"{phase} fixed point"] = np.array(K)
            prediction[f"{phase} parallel"] = float(chi.parallel) ** layers
            prediction[f"{phase} perpendicular"] = float(chi.perpendicular) ** layers
        net = self.network(*self.vanishing)
        prediction["vanishing variance"] = np.asarray(trajectory(net, self.unit_input).nngp[:-1, 0])
        return prediction

    def measure(self, key) -> Measurement:
        measurement = {}
        tanh = layer_integrals.plain_function("tanh")
        for phase, phase_key in zip(("ordered", "chaotic"), jax.random.split(key), strict=True):
            C_b, C_W = getattr(self, phase)
            net = self.network(C_b, C_W)
            K = float(layer_integrals.variance_flow(tanh, C_b, C_W, 1.0, 200)[-1])
            measurement[f"{phase} fixed point"] = exact(K)
            drawn = along_depth(net, K, phase_key, self.draws)
            for name in ("parallel", "perpendicular"):
                measurement[f"{phase} {name}"] = sample_mean(drawn[name])
        net = self.network(*self.vanishing)
        moments = over_layers(net, self.unit_input, jax.random.fold_in(key, 2), self.draws)
        return measurement | {"vanishing variance": sample_mean(moments[..., 0, 0])}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        ratio = depth_over_width(np.arange(1, self.depth + 1), self.width)
        curves = [
            f"{phase} {name}" for phase in ("ordered", "chaotic") for name in ("parallel", "perpendicular")
        ]
        checks = [
            z_score(f"{name} by layer", predicted[name], measured[name], ratio * predicted[name])
            for name in (*curves, "vanishing variance")
        ]
        for phase in ("ordered", "chaotic"):
            name = f"{phase} fixed point"
            checks.append(relative_error(name, predicted[name], measured[name], 1e-8))
        return checks


CLAIMS = (
    Claim(
        id="off-criticality-exponential",
        title="off criticality changes vanish or explode as chi^l",
        statement="""Off criticality a change of the variance behaves as chi_parallel^l and the squared
        difference of two inputs as chi_perp^l, over correlation lengths 1/|log chi|: both vanish in the
        ordered phase, the second explodes in the chaotic phase, and without biases below criticality the
        variance vanishes.""",
        source=orf_543("9/19") + f"; {BOOK}, section 5.1",
        quick=Phases(width=1000, depth=12, draws=400),
        full=Phases(width=4000, depth=20, draws=2000),
        figure=Curves("depth", r"layer $\ell$"),
        wrong={
            "ordered parallel": power(0.5),
            "chaotic perpendicular": power(0.5),
            "vanishing variance": scaled(1.2),
        },
    ),
)
