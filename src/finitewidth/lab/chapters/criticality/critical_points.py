"""Where signals pass any depth: the conditions, and the linear and ReLU cases."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from finitewidth.architecture import MLP
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import relative_error, z_score
from finitewidth.lab.framework.estimate import Estimate, exact, jackknife, propagated, sample_mean, stacked
from finitewidth.lab.framework.sources import orf_543
from finitewidth.lab.instruments import layer_integrals
from finitewidth.lab.instruments.network_draws import input_of_size, over_layers
from finitewidth.report import style
from finitewidth.statistics.criticality import criticality, susceptibilities
from finitewidth.statistics.kernels import trajectory

_CHAPTER = "Criticality"


@dataclass(frozen=True)
class Responses:
    """Susceptibilities at C_W = 1 of smooth activations, at chosen variances; nothing is random."""

    variances: tuple[float, ...]
    activations: tuple[str, ...] = ("tanh", "sin", "gelu")

    @property
    def curve(self) -> np.ndarray:
        """Variances close enough for a smooth curve."""
        return np.geomspace(min(self.variances), max(self.variances), 60)


def _conditions_theory(setting: Responses) -> Prediction:
    measured, curve = (
        [susceptibilities(name, np.asarray(K), 1.0) for name in setting.activations]
        for K in (setting.variances, setting.curve)
    )
    return {
        "parallel": np.array([chi.parallel for chi in measured]),
        "perpendicular": np.array([chi.perpendicular for chi in measured]),
        "parallel curve": np.array([chi.parallel for chi in curve]),
        "perpendicular curve": np.array([chi.perpendicular for chi in curve]),
    }


def _conditions_measure(setting: Responses, key) -> Measurement:
    def table(response) -> Estimate:
        functions = [layer_integrals.plain_function(name) for name in setting.activations]
        return exact(np.array([[response(f, 1.0, K) for K in setting.variances] for f in functions]))

    return {
        "parallel": table(layer_integrals.parallel_response),
        "perpendicular": table(layer_integrals.perpendicular_response),
    }


def _conditions_compare(setting: Responses, predicted: Prediction, measured: Measurement) -> Verdict:
    # Extrapolated differences of averages that are good to 1e-15 are good to about 1e-10.
    return Verdict(
        tuple(
            relative_error(f"chi_{name}", predicted[name], measured[name].value, 1e-8)
            for name in ("parallel", "perpendicular")
        )
    )


def _conditions_figure(setting: Responses, predicted: Prediction, measured: Measurement) -> Figure:
    figure, axes = style.panels("Responses of one layer, by formula and by finite differences", 2)
    symbols = {"parallel": r"\chi_\parallel", "perpendicular": r"\chi_\perp"}
    titles = {"parallel": "change of the variance", "perpendicular": "difference of two inputs"}
    for panel, (name, symbol) in zip(axes, symbols.items(), strict=True):
        for i, (activation, color) in enumerate(zip(setting.activations, style.PALETTE, strict=False)):
            style.theory_line(panel, setting.curve, predicted[f"{name} curve"][i], color, activation)
            value = measured[name].value[i]
            style.measured_points(panel, setting.variances, value, np.zeros_like(value), color)
        panel.set(xscale="log", xlabel=r"variance $K$", ylabel=f"${symbol}/C_W$", title=titles[name])
        style.plain_ticks(panel.xaxis)
    style.legend(axes[0], "finite differences", loc="lower left", error_bars=False)
    return figure


@dataclass(frozen=True)
class DeepNetworks:
    """Deep networks of one activation at several initialisations (C_b, C_W)."""

    activation: str
    cases: tuple[tuple[float, float], ...]
    width: int
    depth: int
    draws: int

    def network(self, C_b: float, C_W: float) -> MLP:
        """`depth` hidden layers at this initialisation."""
        return MLP((self.width,) * self.depth, self.activation, C_b, C_W)


def _start(C_b: float, C_W: float) -> np.ndarray:
    """An input with K^(1) = 1, and a perpendicular direction whose preactivations have variance 1."""
    x = input_of_size((1 - C_b) / C_W)
    direction = np.sqrt(1 / C_W) * np.array([[1.0, -1.0, 1.0, -1.0]])
    return np.concatenate([x, direction])


def _variances_theory(setting: DeepNetworks) -> Prediction:
    K = [trajectory(setting.network(*case), _start(*case)[:1]).nngp[:-1, 0] for case in setting.cases]
    chi = [susceptibilities(setting.activation, 1.0, C_W).perpendicular for _, C_W in setting.cases]
    layers = np.arange(setting.depth)
    return {
        "variance": np.array(K),
        "difference": np.array([float(c) ** layers for c in chi]),
        "critical C_W": np.array(criticality(setting.activation).C_W),
    }


def _variances_measure(setting: DeepNetworks, key) -> Measurement:
    variance, difference, slope = [], [], []
    for case, draw_key in zip(setting.cases, jax.random.split(key, len(setting.cases)), strict=True):
        moments = over_layers(
            setting.network(*case), _start(*case), draw_key, setting.draws, with_tangent=True
        )
        variance.append(sample_mean(moments[..., 0, 0]))
        difference.append(sample_mean(moments[..., 1, 1]))
        slope.append(jackknife(moments[..., 0, 0], _log_slope))
    slope = stacked(slope)
    unbiased = [i for i, (C_b, _) in enumerate(setting.cases) if C_b == 0]
    C_W = np.array(setting.cases)[unbiased, 1]
    return {
        "variance": stacked(variance),
        "difference": stacked(difference),
        "slope": slope,
        "critical C_W": propagated(lambda growth: np.interp(0.0, growth, C_W), slope[unbiased]),
    }


def _log_slope(variance: Float[np.ndarray, "*cases layers"]) -> Float[np.ndarray, "*cases"]:
    """Growth of log K per layer, by least squares over all layers."""
    return np.asarray(np.polyfit(np.arange(variance.shape[-1]), np.log(variance).T, 1)[0])


def _variances_compare(setting: DeepNetworks, predicted: Prediction, measured: Measurement) -> Verdict:
    """Second moments of linear and ReLU networks are those of the recursion at any width."""
    return Verdict(
        (
            z_score("variance by layer", predicted["variance"], measured["variance"]),
            z_score(
                "squared difference of two inputs by layer", predicted["difference"], measured["difference"]
            ),
            z_score("log K per layer", _log_slope(predicted["variance"]), measured["slope"]),
            z_score("critical C_W", predicted["critical C_W"], measured["critical C_W"]),
        )
    )


def _variances_figure(setting: DeepNetworks, predicted: Prediction, measured: Measurement) -> Figure:
    name = {"relu": "ReLU"}.get(setting.activation, setting.activation)
    figure, axes = style.panels(f"Criticality of {name} networks", 2)
    layers = np.arange(1, setting.depth + 1)
    shown = np.unique(np.linspace(0, setting.depth - 1, 10).round().astype(int))
    contents = (
        ("variance", r"$K^{(\ell)}$", "variance"),
        ("difference", r"$|\delta z^{(\ell)}|^2/n$", "difference of two inputs"),
    )
    for panel, (quantity, symbol, title) in zip(axes, contents, strict=True):
        for i, ((C_b, C_W), color) in enumerate(zip(setting.cases, style.PALETTE, strict=False)):
            label = rf"$C_b={C_b:g},\ C_W={C_W:g}$"
            value, sem = measured[quantity]
            style.theory_line(panel, layers, predicted[quantity][i], color, label)
            style.measured_points(panel, layers[shown], value[i, shown], sem[i, shown], color)
        panel.set(yscale="log", xlabel=r"layer $\ell$", ylabel=symbol, title=title)
        style.whole_ticks(panel.xaxis)
        span = predicted[quantity].max() / predicted[quantity].min()
        if span < 100:
            style.plain_ticks(panel.yaxis)
    style.legend_beside(axes[1])
    return figure


CLAIMS = (
    Claim(
        id="criticality-conditions",
        title="chi_parallel and chi_perp are the responses of one layer",
        chapter=_CHAPTER,
        statement=(
            "A change of the variance grows by chi_parallel = (C_W/2) <(sigma^2)''>_K per layer, the "
            "squared difference of two nearby inputs by chi_perp = C_W <sigma'^2>_K; criticality is a "
            "fixed point K* = C_b + C_W <sigma^2> with both equal to one."
        ),
        source=orf_543("9/19") + " (second derivative of sigma^2)",
        quick=Responses((0.1, 0.5, 1.0, 2.0)),
        full=Responses(tuple(float(K) for K in np.geomspace(0.05, 3.0, 15))),
        theory=_conditions_theory,
        measure=_conditions_measure,
        compare=_conditions_compare,
        figure=_conditions_figure,
        deterministic=True,
    ),
    Claim(
        id="linear-critical",
        title="linear networks: K grows by C_W per layer",
        chapter=_CHAPTER,
        statement=(
            "The identity activation is critical only at C_b = 0, C_W = 1: K^(l+1) = C_b + C_W K^(l), so "
            "the variance otherwise grows or shrinks geometrically, by C_W per layer, or drifts."
        ),
        source=orf_543("9/19") + ", linear networks (C_W per layer, not C_W^2)",
        quick=DeepNetworks("linear", ((0.0, 0.8), (0.0, 1.0), (0.0, 1.25), (0.2, 1.0)), 200, 10, 500),
        full=DeepNetworks("linear", ((0.0, 0.8), (0.0, 1.0), (0.0, 1.25), (0.2, 1.0)), 500, 20, 2000),
        theory=_variances_theory,
        measure=_variances_measure,
        compare=_variances_compare,
        figure=_variances_figure,
    ),
    Claim(
        id="relu-critical",
        title="ReLU networks are critical at C_W = 2",
        chapter=_CHAPTER,
        statement=(
            "ReLU is critical at C_b = 0, C_W = 2 for every K*: both susceptibilities are C_W/2 at any "
            "variance."
        ),
        source=orf_543("9/19") + ", ReLU (chi_parallel = C_W P(z > 0))",
        quick=DeepNetworks("relu", ((0.0, 1.6), (0.0, 2.0), (0.0, 2.4)), 500, 20, 500),
        full=DeepNetworks(
            "relu", ((0.0, 1.6), (0.0, 1.8), (0.0, 2.0), (0.0, 2.2), (0.0, 2.4)), 1000, 40, 2000
        ),
        theory=_variances_theory,
        measure=_variances_measure,
        compare=_variances_compare,
        figure=_variances_figure,
    ),
)
