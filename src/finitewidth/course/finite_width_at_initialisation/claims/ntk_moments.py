"""The second moment of the NTK: exact at any width, and in the limit of networks both deep and wide."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP, Params
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._instruments.network_draws import input_of_size, over_networks
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each, z_score
from finitewidth.course._lab.estimate import combined, jackknife, sample_mean, stacked
from finitewidth.course._lab.figures import Curves, layer_names
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.finite_width_at_initialisation.networks.single_input_ntk import tangent_kernels
from finitewidth.course.finite_width_at_initialisation.networks.tensors import up_to
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.statistics.exact.paths import ntk_moments, ntk_ratio_limit

_SOURCE = orf_543("11/30") + ", NTK; "


def _critical(*hidden: int) -> Layer:
    return MLP(hidden, "relu", lambda_b=0.0, lambda_W=2.0)


@dataclass(frozen=True)
class Architectures:
    """ReLU networks without biases, critical, one input of mean square one."""

    hidden: tuple[tuple[int, ...], ...]
    draws: int

    def networks(self) -> list[Layer]:
        return [_critical(*hidden) for hidden in self.hidden]

    def theory(self) -> Prediction:
        moments = [ntk_moments(net) for net in self.networks()]
        return {"mean": np.array([m.mean for m in moments]), "second": np.array([m.second for m in moments])}

    def measure(self, key) -> Measurement:
        x = input_of_size(1.0)
        keys = jax.random.split(key, len(self.hidden))
        means = stacked(
            [
                sample_mean(over_networks(net, x, k, self.draws, _averaged_over_outputs))
                for net, k in zip(self.networks(), keys, strict=True)
            ]
        )
        return {"mean": means[:, 0], "second": means[:, 1]}


def _averaged_over_outputs(net: Layer, params: Params, x: Float[Array, "1 d"]) -> Float[Array, " 2"]:
    r"""H and H^2 averaged over Gaussian output weights w: $H=a+w\cdot Mw$, M from the layers below."""
    net, body = dense_stack(net), up_to(net, -1)
    z = body.apply(params[:-1], x)[0]
    value, slope = jax.jvp(net.activation, (z,), (jnp.ones_like(z),))
    below = empirical_ntk(body, params[:-1], x)[:, :, 0, 0]
    M = net.C_W[-1] / len(z) * slope[:, None] * below * slope
    mean = net.lambda_b[-1] + net.lambda_W[-1] * jnp.mean(value**2) + jnp.trace(M)
    return jnp.stack([mean, mean**2 + 2 * jnp.sum(M**2)])


@dataclass(frozen=True)
class Limit:
    """Critical ReLU networks of two sizes at each depth over width, and one with a narrow layer."""

    depth_over_width: tuple[float, ...]
    widths: tuple[int, int]
    draws: int
    unequal: tuple[int, ...] = (32, 32, 32, 4, 32, 32, 32)

    @property
    def bottleneck(self) -> Layer:
        return _critical(*self.unequal)

    def networks(self, n: int) -> list[Layer]:
        return [_critical(*(n,) * round(beta * n)) for beta in self.depth_over_width]

    def theory(self) -> Prediction:
        at_width = {
            f"width {n}": np.array([ntk_moments(net).ratio for net in self.networks(n)]) for n in self.widths
        }
        return at_width | {
            "ratio": ntk_ratio_limit(np.array(self.depth_over_width)),
            "bottleneck": np.asarray(ntk_moments(self.bottleneck).ratio),
        }

    def measure(self, key) -> Measurement:
        measured = {}
        *width_keys, bottleneck_key = jax.random.split(key, 3)
        for n, width_key in zip(self.widths, width_keys, strict=True):
            keys = jax.random.split(width_key, len(self.depth_over_width))
            kernels = (
                tangent_kernels(net, 1.0, k, self.draws)
                for net, k in zip(self.networks(n), keys, strict=True)
            )
            measured[f"width {n}"] = stacked(
                [jackknife(np.stack([H, H**2], axis=1), lambda m: m[1] / m[0] ** 2) for H in kernels]
            )
        narrow, wide = measured.values()
        # The distance from the limit falls as 1/width: a line through both widths meets it.
        weight = self.widths[1] / (self.widths[1] - self.widths[0])
        measured["ratio"] = combined((weight, 1 - weight), (wide, narrow))
        moments = over_networks(
            self.bottleneck, input_of_size(1.0), bottleneck_key, self.draws // 4, _averaged_over_outputs
        )
        measured["bottleneck"] = jackknife(moments, lambda m: m[1] / m[0] ** 2)
        return measured

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        """Two widths remove the first order of what is left out, and leave its square.

        A factor 1 + 5/n per layer is e^(5/n) (1 - 12.5/n^2), a sum over layers is an integral up to its ends.
        """
        left_out = (12.5 * np.array(self.depth_over_width) + 2) / self.widths[0]
        exact_names = {f"width {n}": f"E[H^2]/E[H]^2 at width {n}" for n in self.widths}
        exact_names["bottleneck"] = "E[H^2]/E[H]^2 with a narrow layer"
        return [
            z_score(
                "limit of E[H^2]/E[H]^2",
                predicted["ratio"],
                measured["ratio"],
                predicted["ratio"] * left_out**2,
            ),
            *(z_score(text, predicted[name], measured[name]) for name, text in exact_names.items()),
        ]


def _frozen_output_layer(setting: Architectures, value: np.ndarray) -> np.ndarray:
    """L layers that learn instead of L + 1."""
    layers = np.array([len(hidden) for hidden in setting.hidden])
    return value * layers / (layers + 1)


def _independent_layers(setting: Architectures, value: np.ndarray) -> np.ndarray:
    """1 + 3/n for every hidden layer, as if fluctuations of layers were independent."""
    layers = np.array([len(hidden) + 1 for hidden in setting.hidden])
    return (2.0 * layers) ** 2 * np.array([1 + sum(3 / n for n in hidden) for hidden in setting.hidden])


def _first_order(setting: Limit, value: np.ndarray) -> np.ndarray:
    return 1 + 11 / 3 * np.array(setting.depth_over_width)


def _exponential_alone(setting: Limit, value: np.ndarray) -> np.ndarray:
    """exp(5 beta), to which the notes call the fluctuations comparable."""
    return np.exp(5 * np.array(setting.depth_over_width))


def _sum_of_inverse_widths_alone(setting: Limit, value: np.ndarray) -> np.ndarray:
    """Layers of one width, with the depth and the sum of 1/n_l of the network with a narrow layer."""
    layers = len(setting.unequal)
    width = layers / sum(1 / n for n in setting.unequal)
    sizes = np.array([np.floor(width), np.ceil(width)]).astype(int)
    ratios = [ntk_moments(equal_layers(int(n), layers, "relu", lambda_b=0.0)).ratio for n in sizes]
    return np.asarray(np.interp(1 / width, 1 / sizes[::-1], ratios[::-1]))


CLAIMS = (
    Claim(
        id="ntk-diagonal-second-moment",
        title="E[H^2] of ReLU networks at any width",
        statement="""Without biases the NTK of a critical ReLU network at one input has mean (L+1) K, every
        weight matrix adding the same, and a second moment that follows a closed linear recursion at every
        width; with one hidden layer E[H^2]/E[H]^2 = 1 + 3/n.""",
        source=_SOURCE + "the output layer counts (L+1, not L); recursion for any two slopes derived here",
        quick=Architectures(((8,), (20, 30, 25)), draws=10_000),
        full=Architectures(((8,), (24, 12), (6, 5, 7), (20, 30, 25), (10, 10, 10, 10)), draws=100_000),
        compare=compare_each({"mean": "E[H]", "second": "E[H^2]"}),
        figure=Curves(lambda setting: layer_names(setting.hidden), "hidden widths"),
        wrong={"mean": _frozen_output_layer, "second": _independent_layers},
    ),
    Claim(
        id="ntk-fluctuation-limit",
        title="E[H^2]/E[H]^2 when depth and width grow together",
        statement="""As depth L and width n of critical ReLU networks with layers of equal width grow with
        beta = L/n fixed, E[H^2]/E[H]^2 tends to e^(5 beta) [1/3 + 2/(9 beta) - (1 - e^(-6 beta))/(27
        beta^2)]: 1 + 11/3 beta for small beta, e^(5 beta)/3 for large. Networks of finite width follow the
        recursion, which lies below the limit. With layers of unequal width depth and sum 1/n_l do not fix the
        ratio: one narrow layer among wide ones makes it smaller.""",
        source=_SOURCE + "'comparable to exp(5 beta)' made exact",
        quick=Limit((0.2,), (20, 40), draws=40_000),
        full=Limit((0.1, 0.2, 0.3), (20, 40), draws=200_000),
        figure=Curves("depth_over_width", "depth / width"),
        wrong={
            "ratio": (_first_order, _exponential_alone),
            "width 40": scaled(1.1),
            "bottleneck": _sum_of_inverse_widths_alone,
        },
    ),
)
