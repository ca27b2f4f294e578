"""How non-Gaussian preactivations are, and how much tangent kernels vary, at finite width and depth."""

import itertools
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import Params
from finitewidth.course._instruments.network_draws import input_of_size, over_layers, over_networks
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each, z_score
from finitewidth.course._lab.estimate import Estimate, jackknife, sample_mean, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import BEYOND, BOOK, DAY_3, ROBERTS, orf_543
from finitewidth.course._lab.wrong import constant, scaled
from finitewidth.networks.tangent.differentials import empirical_ddntk, empirical_dntk
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.statistics.first_order.corrections import dense_corrections
from finitewidth.statistics.first_order.depth_growth import depth_growth


@dataclass(frozen=True)
class Kurtosis:
    """Critical networks of several widths, one input of mean square one."""

    activations: tuple[str, ...]
    widths: tuple[int, ...]
    layers: int
    draws: int

    def network(self, activation: str, width: int) -> Layer:
        return equal_layers(width, self.layers, activation)

    def theory(self) -> Prediction:
        return {
            activation: np.stack(
                [
                    depth_growth(self.network(activation, n)).excess_kurtosis[: self.layers]
                    for n in self.widths
                ]
            )
            for activation in self.activations
        }

    def measure(self, key) -> Measurement:
        keys = iter(jax.random.split(key, len(self.activations) * len(self.widths)))
        return {
            activation: stacked([_layer_kurtosis(self, activation, n, next(keys)) for n in self.widths])
            for activation in self.activations
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        """The next order in depth/width is about the square of the first: x^2/6 for ReLU, exactly."""
        return [z_score(a, predicted[a], measured[a], predicted[a] ** 2 / 3) for a in self.activations]


def _layer_kurtosis(setting: Kurtosis, activation: str, n: int, key) -> Estimate:
    """From the mean square S of a layer: its n units are independent Gaussians given the layer below.

    So the average fourth power of one of them is 3 E[S^2] / (1 + 2/n).
    """
    S = over_layers(setting.network(activation, n), input_of_size(1.0), key, setting.draws)[..., 0, 0]

    def excess(moments: np.ndarray) -> np.ndarray:
        return 3 * moments[1] / (1 + 2 / n) / moments[0] ** 2 - 3

    return jackknife(np.stack([S, S**2], axis=1), excess)


@dataclass(frozen=True)
class Kernels:
    """Critical networks of several depths and widths, one input, one output."""

    widths: tuple[int, ...]
    hidden_layers: tuple[int, ...]
    draws: int
    activation: str = "tanh"
    square: float = 1.0
    lambda_b: float = 1.0

    def network(self, hidden_layers: int, width: int) -> Layer:
        return equal_layers(width, hidden_layers, self.activation, lambda_b=self.lambda_b)

    @property
    def pairs(self) -> list[tuple[int, int]]:
        return list(itertools.product(self.hidden_layers, self.widths))


def _ntk(net: Layer, params: Params, x: Float[Array, "n d"]) -> Array:
    return empirical_ntk(net, params, x)[0, 0, 0, 0]


def _relative_variance(H: np.ndarray) -> Estimate:
    return jackknife(np.stack([H, H**2], axis=1), lambda m: m[1] / m[0] ** 2 - 1)


def _by_depth_and_width(setting: Kernels, estimates: list[Estimate]) -> Estimate:
    shape = (len(setting.hidden_layers), len(setting.widths))
    return stacked(estimates).reshape(*shape)


def _ntk_theory(setting: Kernels) -> Prediction:
    mean, variance = [], []
    for layers, n in setting.pairs:
        growth = depth_growth(setting.network(layers, n), setting.square)
        mean.append(growth.Theta[-1] + growth.H1[-1] / n)
        variance.append(growth.ntk_variance[-1])
    shape = (len(setting.hidden_layers), len(setting.widths))
    return {"mean": np.array(mean).reshape(shape), "variance": np.array(variance).reshape(shape)}


def _ntk_measure(setting: Kernels, key) -> Measurement:
    x = input_of_size(setting.square)
    samples = [
        over_networks(setting.network(layers, n), x, k, setting.draws, _ntk)
        for (layers, n), k in zip(setting.pairs, jax.random.split(key, len(setting.pairs)), strict=True)
    ]
    return {
        "mean": _by_depth_and_width(setting, [sample_mean(H) for H in samples]),
        "variance": _by_depth_and_width(setting, [_relative_variance(H) for H in samples]),
    }


def _next_order(setting: Kernels) -> np.ndarray:
    return (np.array(setting.hidden_layers)[:, None] + 1) / np.array(setting.widths)


def _ntk_compare(setting: Kernels, predicted: Prediction, measured: Measurement) -> Checks:
    mean, variance, small = predicted["mean"], predicted["variance"], _next_order(setting)
    return [
        z_score("mean NTK", mean, measured["mean"], mean * small**2),
        z_score("relative variance of the NTK", variance, measured["variance"], variance * small),
    ]


_MOTION = ("z dH", "I", "J")


def _motion(net: Layer, params: Params, x: Float[Array, "n d"]) -> dict[str, Array]:
    """Kernel, z times dNTK, dNTK and both ddNTKs of one input and one output."""
    one = jnp.ones((1, 1))
    dH = empirical_dntk(net, params, x, vectors=(one, one))[0, 0]
    I, J = empirical_ddntk(net, params, x, vectors=(one, one, one))
    return {
        "H": _ntk(net, params, x),
        "dH": dH,
        "z dH": net.apply(params, x)[0, 0] * dH,
        "I": I[0, 0],
        "J": J[0, 0],
    }


def _motion_theory(setting: Kernels) -> Prediction:
    columns: dict[str, list[float]] = {name: [] for name in _MOTION}
    for layers, n in setting.pairs:
        t = dense_corrections(setting.network(layers, n), input_of_size(setting.square))
        P, Q, R, S, T, U = (getattr(t, name).item() for name in "PQRSTU")
        for name, value in zip(_MOTION, (P + 2 * Q, 3 * R, S + T + U), strict=True):
            columns[name].append(value)
    shape = (len(setting.hidden_layers), len(setting.widths))
    return {name: np.array(values).reshape(shape) for name, values in columns.items()}


def _motion_measure(setting: Kernels, key) -> Measurement:
    x = input_of_size(setting.square)
    means: dict[str, list[Estimate]] = {name: [] for name in (*_MOTION, "dH")}
    for (layers, n), k in zip(setting.pairs, jax.random.split(key, len(setting.pairs)), strict=True):
        samples = over_networks(setting.network(layers, n), x, k, setting.draws, _motion)
        for name in means:
            means[name].append(sample_mean(n * samples[name]))
    return {name: _by_depth_and_width(setting, estimates) for name, estimates in means.items()}


def _motion_compare(setting: Kernels, predicted: Prediction, measured: Measurement) -> Checks:
    small = _next_order(setting)
    checks = [
        z_score(f"n E[{name}]", predicted[name], measured[name], np.abs(predicted[name]) * small)
        for name in _MOTION
    ]
    return [*checks, z_score("mean dNTK", 0.0, measured["dH"])]


def _second_order_of_relu(setting: Kernels, value: np.ndarray) -> np.ndarray:
    """In the law e^(5b)(1/3 + ...), b = depth/width, it is about twice the square of the first."""
    return 3 * value * _next_order(setting)


def _growth_theory(setting: Kernels) -> Prediction:
    return {"variance": _ntk_theory(setting)["variance"] * np.array(setting.widths)}


def _growth_measure(setting: Kernels, key) -> Measurement:
    variance = _ntk_measure(setting, key)["variance"]
    return {"variance": variance.times(np.array(setting.widths))}


_BY_WIDTH = Curves("widths", "width", "hidden_layers", "hidden layers: %d")


CLAIMS = (
    Claim(
        id="excess-kurtosis-depth-width",
        title="excess kurtosis 3V/(nK^2)",
        statement="""At finite width a preactivation is not Gaussian: its excess kurtosis is 3V/(nK^2) to
        first order, growing by 15/n per layer for critical ReLU networks and by 2/n for critical tanh
        ones.""",
        source=f"{BEYOND}: {BOOK}, chapters 4 and 5; fourth moment of ReLU: " + orf_543("11/30"),
        quick=Kurtosis(("relu", "tanh"), (50, 100), layers=6, draws=4000),
        full=Kurtosis(("relu", "tanh", "gelu"), (50, 100, 200), layers=12, draws=60_000),
        figure=Curves("layers", r"layer $\ell$", "widths", "width %d"),
        wrong={"relu": scaled(2 / 5), "tanh": scaled(1.5)},
    ),
    Claim(
        id="ntk-width-scaling",
        title="NTK fluctuates as n^(-1/2)",
        statement="""With weight variance C_W/n and rates lambda_W/n the mean NTK does not depend on the
        width, up to H1/n, and its relative variance is (A + 2B)/(n Theta^2): the fluctuation falls as
        n^(-1/2).""",
        source=f"{ROBERTS}, depth over width (NTK as in: {DAY_3}); coefficients derived here",
        quick=Kernels((32, 128), (1, 3), draws=1000),
        full=Kernels((16, 32, 64, 128, 256), (1, 3), draws=6000),
        theory=_ntk_theory,
        measure=_ntk_measure,
        compare=_ntk_compare,
        figure=_BY_WIDTH,
        wrong={"mean": scaled(1.1), "variance": scaled(1.5)},
    ),
    Claim(
        id="dntk-width-scaling",
        title="dNTK and ddNTK are 1/n effects",
        statement="""n E[z dH], n E[I] and n E[J] approach P + 2Q, 3R and S + T + U as the width grows, and
        E[dH] vanishes: the kernel's motion in training is an effect of order 1/n.""",
        source=f"{ROBERTS}, depth over width (dNTK as in: {DAY_3}); coefficients derived here",
        quick=Kernels((32, 64), (1,), draws=8000),
        full=Kernels((16, 32, 64, 128), (1, 3), draws=8000),
        theory=_motion_theory,
        measure=_motion_measure,
        compare=_motion_compare,
        figure=_BY_WIDTH,
        wrong={"z dH": scaled(-1.0), "I": scaled(1 / 3), "J": scaled(0.5)},
    ),
    Claim(
        id="depth-over-width",
        title="fluctuations are set by L/n",
        statement="""n Var(H)/E[H]^2 of critical ReLU networks without biases grows linearly with depth, by
        11/3 per layer when the network is deep: depth over width is the expansion parameter.""",
        source=f"{ROBERTS}, depth over width; 11/3 from the second moment: " + orf_543("11/30"),
        quick=Kernels((64,), (1, 2, 4), draws=6000, activation="relu", lambda_b=0.0),
        full=Kernels((64, 128), (1, 2, 4, 8), draws=5000, activation="relu", lambda_b=0.0),
        theory=_growth_theory,
        measure=_growth_measure,
        compare=compare_each({"variance": "n Var(H) / E[H]^2"}, within=_second_order_of_relu),
        figure=Curves("hidden_layers", "hidden layers", "widths", "width %d", along=0),
        wrong={"variance": constant},
    ),
)
