"""One layer of a random network: its variance, its law given the layer below, its fourth moment."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.activations import Activation
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP, Params
from finitewidth.course._instruments.network_draws import input_of_size, over_networks
from finitewidth.course._lab.claim import Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each
from finitewidth.course._lab.estimate import jackknife, sample_mean, stacked
from finitewidth.course._lab.figures import Curves, layer_names
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.statistics.wide.kernels import trajectory


@dataclass(frozen=True)
class FanIn:
    """Weight variance n^-power for each power, at every width n."""

    widths: tuple[int, ...]
    draws: int
    powers: tuple[float, ...] = (0.5, 1.0, 1.5)
    C_b: float = 0.5

    def theory(self) -> Prediction:
        variance = [
            [trajectory(*_fan_in_network(self, n, power)).nngp[0, 0] for n in self.widths]
            for power in self.powers
        ]
        return {"variance": np.array(variance)}

    def measure(self, key) -> Measurement:
        rows = []
        for power in self.powers:
            row = []
            for n in self.widths:
                key, draw_key = jax.random.split(key)
                net, x = _fan_in_network(self, n, power)
                z = over_networks(net, x, draw_key, -(-self.draws // _UNITS), _outputs)
                row.append(sample_mean(z.ravel() ** 2))
            rows.append(stacked(row))
        return {"variance": stacked(rows)}


_UNITS = 1000


def _fan_in_network(setting: FanIn, n: int, power: float) -> tuple[Layer, np.ndarray]:
    net = equal_layers(1, 0, "linear", setting.C_b, float(n) ** (1 - power), n_out=_UNITS)
    return net, np.cos(np.arange(n))[None]


def _outputs(net: Layer, params: Params, x: Float[Array, "1 d"]) -> Array:
    return net.apply(params, x)


@dataclass(frozen=True)
class ConditionalLayer:
    """A tanh layer of each width under a few output units."""

    widths: tuple[int, ...]
    draws: int
    units: int = 8
    C_b: float = 0.1
    C_W: float = 1.5

    def theory(self) -> Prediction:
        """Var(K^) = C_W^2 (<tanh^4> - <tanh^2>^2) / n, exact for one hidden layer of any width."""
        C_b, C_W, x = self.C_b, self.C_W, input_of_size(0.6)
        K = float(trajectory(equal_layers(1, 1, "tanh", C_b, C_W), x).nngp[-1, 0])
        second = (K - C_b) / C_W
        squares = equal_layers(1, 1, Activation(_tanh_squared), [C_b, 0.0], [C_W, 1.0])
        fourth = float(trajectory(squares, x).nngp[-1, 0])
        fluctuation = C_W**2 * (fourth - second**2) / (np.array(self.widths) * K**2)
        return {"excess kurtosis": 3 * fluctuation, "shared variance": fluctuation}

    def measure(self, key) -> Measurement:
        kurtosis, shared = [], []
        for n, draw_key in zip(self.widths, jax.random.split(key, len(self.widths)), strict=True):
            net = equal_layers(n, 1, "tanh", self.C_b, self.C_W, n_out=self.units)
            moments = over_networks(net, input_of_size(0.6), draw_key, self.draws, _unit_moments)
            kurtosis.append(jackknife(moments, lambda mean: mean[1] / mean[0] ** 2 - 3))
            shared.append(jackknife(moments, lambda mean: mean[2] / mean[0] ** 2 - 1))
        return {"excess kurtosis": stacked(kurtosis), "shared variance": stacked(shared)}


def _tanh_squared(z):
    return jnp.tanh(z) ** 2


def _unit_moments(net: Layer, params: Params, x: Float[Array, "1 d"]) -> Float[Array, " 3"]:
    """Averages over units of z^2 and z^4, and over pairs of different units of z_1^2 z_2^2."""
    square = net.apply(params, x)[0] ** 2
    units = len(square)
    pairs = (jnp.sum(square) ** 2 - jnp.sum(square**2)) / (units * (units - 1))
    return jnp.stack([jnp.mean(square), jnp.mean(square**2), pairs])


@dataclass(frozen=True)
class FourthMoment:
    """ReLU networks with these hidden widths."""

    architectures: tuple[tuple[int, ...], ...]
    draws: int

    def theory(self) -> Prediction:
        x = input_of_size(1.0, n_in=2)
        K = [float(trajectory(MLP(hidden, "relu", 0.0, 2.0), x).nngp[-1, 0]) for hidden in self.architectures]
        growth = [np.prod([1 + 5 / n for n in hidden]) for hidden in self.architectures]
        return {"fourth moment": 3 * np.square(K) * np.array(growth)}

    def measure(self, key) -> Measurement:
        moments = []
        for hidden in self.architectures:
            key, draw_key = jax.random.split(key)
            net = MLP(hidden, "relu", 0.0, 2.0, n_out=2)
            x = input_of_size(1.0, n_in=2)
            moments.append(sample_mean(over_networks(net, x, draw_key, self.draws, _fourth_power)))
        return {"fourth moment": stacked(moments)}


def _fourth_power(net, params, x):
    return jnp.mean(net.apply(params, x) ** 4)


def _without_fan_in(setting: ConditionalLayer, value: np.ndarray) -> np.ndarray:
    """The covariance block C_W instead of C_W / n that the notes print."""
    return value * np.array(setting.widths)


def _exponential(setting: FourthMoment, value: np.ndarray) -> np.ndarray:
    """exp(5 sum 1/n) in place of the product over (1 + 5/n)."""
    factors = [np.prod([np.exp(5 / n) / (1 + 5 / n) for n in hidden]) for hidden in setting.architectures]
    return value * np.array(factors)


CLAIMS = (
    Claim(
        id="fan-in-scaling",
        title="weight variance C_W/fan-in keeps Var z of order one",
        statement="""A preactivation of a layer with inputs of order one has variance C_b + Var(W) |x|^2,
        which is of order one at every width only if the weight variance is C_W/fan-in.""",
        source=orf_543("9/14") + " (the width of the incoming layer)",
        quick=FanIn((10, 100, 1000), draws=4000),
        full=FanIn((10, 30, 100, 300, 1000, 3000), draws=10_000),
        compare=compare_each({"variance": "variance of a preactivation"}),
        figure=Curves("widths", r"fan-in $n$", "powers", r"$\mathrm{Var}\,W = n^{-%g}$"),
        wrong={"variance": scaled(1.2)},
    ),
    Claim(
        id="conditional-gaussian-layer",
        title="given a layer, the next one is Gaussian with a shared random variance",
        statement="""Given layer l, the units of layer l+1 are independent Gaussians with the shared random
        covariance K^ = C_b + (C_W/n) sum_j sigma_ja sigma_jb, so a unit has excess kurtosis 3 Var(K^)/E[K^]^2
        and the squares of two units have covariance Var(K^).""",
        source=orf_543("9/21") + " (covariance block C_W/n_l, not C_W)",
        quick=ConditionalLayer((4, 8, 16), draws=50_000),
        full=ConditionalLayer((4, 8, 16, 32, 64, 128), draws=1_000_000),
        compare=compare_each(
            {
                "excess kurtosis": "excess kurtosis of a unit",
                "shared variance": "covariance of two squared units",
            }
        ),
        figure=Curves("widths", r"hidden width $n$"),
        wrong={"excess kurtosis": _without_fan_in, "shared variance": _without_fan_in},
    ),
    Claim(
        id="relu-output-fourth-moment",
        title="E[z^4] = 3 K^2 prod(1 + 5/n) for ReLU",
        statement="""A ReLU network with C_W = 2, C_b = 0 has output fourth moment 3 K^2 prod_l (1 +
        5/n_l) at any finite width, the product running over hidden layers; exp(5 sum 1/n) is its leading
        approximation.""",
        source=orf_543("11/30"),
        quick=FourthMoment(((16,), (10, 10), (6, 5, 7)), draws=100_000),
        full=FourthMoment(((16,), (10, 10), (6, 5, 7), (20,) * 5), draws=1_000_000),
        compare=compare_each({"fourth moment": "E[z^4]"}),
        figure=Curves(lambda setting: layer_names(setting.architectures), "hidden widths"),
        wrong={"fourth moment": _exponential},
    ),
)
