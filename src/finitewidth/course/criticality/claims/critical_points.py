"""Where signals pass any depth: the conditions, and the linear and ReLU cases."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float

from finitewidth.architecture.layer import Layer
from finitewidth.course._instruments import layer_integrals
from finitewidth.course._instruments.network_draws import input_of_size, over_layers
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each, relative_error, z_score
from finitewidth.course._lab.estimate import Estimate, exact, jackknife, propagated, sample_mean, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import power, scaled
from finitewidth.statistics.depth.criticality import criticality, susceptibilities
from finitewidth.statistics.wide.kernels import trajectory


@dataclass(frozen=True)
class Responses:
    """Susceptibilities at C_W = 1 of smooth activations, at chosen variances; nothing is random."""

    variances: tuple[float, ...]
    activations: tuple[str, ...] = ("tanh", "sin", "gelu")

    def theory(self) -> Prediction:
        chi = [susceptibilities(name, np.asarray(self.variances), 1.0) for name in self.activations]
        return {
            "parallel": np.array([c.parallel for c in chi]),
            "perpendicular": np.array([c.perpendicular for c in chi]),
        }

    def measure(self, key) -> Measurement:
        def table(response) -> Estimate:
            functions = [layer_integrals.plain_function(name) for name in self.activations]
            return exact(np.array([[response(f, 1.0, K) for K in self.variances] for f in functions]))

        return {
            "parallel": table(layer_integrals.parallel_response),
            "perpendicular": table(layer_integrals.perpendicular_response),
        }


# Extrapolated differences of averages that are good to 1e-15 are good to about 1e-10.
_DIFFERENCES = 1e-8


@dataclass(frozen=True)
class DeepNetworks:
    """Deep networks of one activation at several initialisations (C_b, C_W)."""

    activation: str
    cases: tuple[tuple[float, float], ...]
    width: int
    depth: int
    draws: int

    def network(self, C_b: float, C_W: float) -> Layer:
        """`depth` hidden layers at this initialisation."""
        return equal_layers(self.width, self.depth, self.activation, C_b, C_W)

    def theory(self) -> Prediction:
        K = [trajectory(self.network(*case), _start(*case)[:1]).nngp[:-1, 0] for case in self.cases]
        chi = [susceptibilities(self.activation, 1.0, C_W).perpendicular for _, C_W in self.cases]
        layers = np.arange(self.depth)
        return {
            "variance": np.array(K),
            "difference": np.array([float(c) ** layers for c in chi]),
            "critical C_W": np.array(criticality(self.activation).C_W),
        }

    def measure(self, key) -> Measurement:
        variance, difference, slope = [], [], []
        for case, draw_key in zip(self.cases, jax.random.split(key, len(self.cases)), strict=True):
            moments = over_layers(self.network(*case), _start(*case), draw_key, self.draws, with_tangent=True)
            variance.append(sample_mean(moments[..., 0, 0]))
            difference.append(sample_mean(moments[..., 1, 1]))
            slope.append(jackknife(moments[..., 0, 0], _log_slope))
        slope = stacked(slope)
        unbiased = [i for i, (C_b, _) in enumerate(self.cases) if C_b == 0]
        C_W = np.array(self.cases)[unbiased, 1]
        return {
            "variance": stacked(variance),
            "difference": stacked(difference),
            "slope": slope,
            "critical C_W": propagated(lambda growth: np.interp(0.0, growth, C_W), slope[unbiased]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        """Second moments of linear and ReLU networks are those of the recursion at any width."""
        return [
            z_score("variance by layer", predicted["variance"], measured["variance"]),
            z_score(
                "squared difference of two inputs by layer", predicted["difference"], measured["difference"]
            ),
            z_score("log K per layer", _log_slope(predicted["variance"]), measured["slope"]),
            z_score("critical C_W", predicted["critical C_W"], measured["critical C_W"]),
        ]


def _start(C_b: float, C_W: float) -> np.ndarray:
    """An input with K^(1) = 1, and a perpendicular direction whose preactivations have variance 1."""
    x = input_of_size((1 - C_b) / C_W)
    direction = np.sqrt(1 / C_W) * np.array([[1.0, -1.0, 1.0, -1.0]])
    return np.concatenate([x, direction])


def _log_slope(variance: Float[np.ndarray, "*cases layers"]) -> Float[np.ndarray, "*cases"]:
    """Growth of log K per layer, by least squares over all layers."""
    return np.asarray(np.polyfit(np.arange(variance.shape[-1]), np.log(variance).T, 1)[0])


def _growth_of_xavier(setting: DeepNetworks, value: np.ndarray) -> np.ndarray:
    """ReLU without its factor of two: susceptibilities C_W / 4."""
    return value * 0.5 ** np.arange(value.shape[-1])


_DEPTH = Curves("depth", r"layer $\ell$", "cases", r"$C_b=%g,\ C_W=%g$")


CLAIMS = (
    Claim(
        id="criticality-conditions",
        title="chi_parallel and chi_perp are the responses of one layer",
        statement="""A change of the variance grows by chi_parallel = (C_W/2) <(sigma^2)''>_K per layer, the
        squared difference of two nearby inputs by chi_perp = C_W <sigma'^2>_K; criticality is a fixed point
        K* = C_b + C_W <sigma^2> with both equal to one.""",
        source=orf_543("9/19") + " (second derivative of sigma^2)",
        quick=Responses((0.1, 0.5, 1.0, 2.0)),
        full=Responses(tuple(float(K) for K in np.geomspace(0.05, 3.0, 15))),
        compare=compare_each(
            {"parallel": "chi_parallel", "perpendicular": "chi_perpendicular"}, relative_error, _DIFFERENCES
        ),
        figure=Curves("variances", r"variance $K$", "activations"),
        deterministic=True,
        wrong={"parallel": scaled(0.5), "perpendicular": scaled(1 + 1e-6)},
    ),
    Claim(
        id="linear-critical",
        title="linear networks: K grows by C_W per layer",
        statement="""The identity activation is critical only at C_b = 0, C_W = 1: K^(l+1) = C_b + C_W K^(l),
        so the variance otherwise grows or shrinks geometrically, by C_W per layer, or drifts.""",
        source=orf_543("9/19") + ", linear networks (C_W per layer, not C_W^2)",
        quick=DeepNetworks("linear", ((0.0, 0.8), (0.0, 1.0), (0.0, 1.25), (0.2, 1.0)), 200, 10, 500),
        full=DeepNetworks("linear", ((0.0, 0.8), (0.0, 1.0), (0.0, 1.25), (0.2, 1.0)), 500, 20, 2000),
        figure=_DEPTH,
        wrong={"variance": power(2.0), "critical C_W": scaled(1.05)},
    ),
    Claim(
        id="relu-critical",
        title="ReLU networks are critical at C_W = 2",
        statement="""ReLU is critical at C_b = 0, C_W = 2 for every K*: both susceptibilities are C_W/2 at any
        variance.""",
        source=orf_543("9/19") + ", ReLU (chi_parallel = C_W P(z > 0))",
        quick=DeepNetworks("relu", ((0.0, 1.6), (0.0, 2.0), (0.0, 2.4)), 500, 20, 500),
        full=DeepNetworks(
            "relu", ((0.0, 1.6), (0.0, 1.8), (0.0, 2.0), (0.0, 2.2), (0.0, 2.4)), 1000, 40, 2000
        ),
        figure=_DEPTH,
        wrong={"variance": _growth_of_xavier, "difference": _growth_of_xavier},
    ),
)
