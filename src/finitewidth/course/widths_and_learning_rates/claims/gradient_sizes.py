"""How large each layer's gradient is, and which learning rates make layers learn alike."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import Params
from finitewidth.course._instruments.network_draws import input_of_size, over_networks
from finitewidth.course._lab.claim import Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each
from finitewidth.course._lab.estimate import Estimate, exact, propagated, sample_mean, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.shapes.networks import equal_layers
from finitewidth.course._lab.sources import IEMS_402, orf_543
from finitewidth.course._lab.wrong import power, scaled, shifted
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk_by_group
from finitewidth.statistics.wide.kernels import kernels


@dataclass(frozen=True)
class Gradients:
    """ReLU networks of one depth at every width, one input."""

    widths: tuple[int, ...]
    hidden_layers: int
    draws: int
    n_in: int = 4
    square: float = 1.3

    def network(self, n: int, **rates: np.ndarray) -> Layer:
        """Critical layers of this width."""
        return equal_layers(n, self.hidden_layers, "relu", 0.0, 2.0, **rates)

    @property
    def input(self) -> np.ndarray:
        """The one input."""
        return input_of_size(self.square, self.n_in)


def _squared_gradients(setting: Gradients, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Sums of squared derivatives of the output over each weight matrix and each bias vector.

    The NTK with a learning rate in a single group is that group's sum times the rate.
    """
    rates = np.eye(setting.hidden_layers + 1)
    none, fan_in = 0 * rates[0], [setting.n_in, *(n,) * setting.hidden_layers]
    of = lambda **rates: float(kernels(setting.network(n, **rates), setting.input).ntk[0, 0])
    weights = [fan * of(lambda_b=none, lambda_W=one) for fan, one in zip(fan_in, rates, strict=True)]
    return np.array(weights), np.array([of(lambda_b=one, lambda_W=none) for one in rates])


def _theory(setting: Gradients) -> Prediction:
    sums = [_squared_gradients(setting, n) for n in setting.widths]
    return {"weights": np.stack([w for w, _ in sums]), "biases": np.stack([b for _, b in sums])}


def _group_sums(net: Layer, params: Params, x: Float[Array, "1 d"]) -> Float[Array, "2 depth"]:
    parts = empirical_ntk_by_group(net, params, x, rates=1.0)
    return jnp.stack([jnp.stack([layer.weight.sum(), layer.bias.sum()]) for layer in parts], axis=1)


def _measure(setting: Gradients, key) -> Measurement:
    weights, biases = [], []
    for n, draw_key in zip(setting.widths, jax.random.split(key, len(setting.widths)), strict=True):
        sums = over_networks(setting.network(n), setting.input, draw_key, setting.draws, _group_sums)
        weights.append(sample_mean(sums[:, 0]))
        biases.append(sample_mean(sums[:, 1]))
    return {"weights": stacked(weights), "biases": stacked(biases)}


def _entries(setting: Gradients, sums: Estimate) -> Estimate:
    """Mean squares of single entries of the first matrix and of the last row of weights."""
    n = np.array(setting.widths)
    counts = np.stack([n * setting.n_in, n], axis=1)
    return sums[:, [0, -1]].times(1 / counts)


def _width_theory(setting: Gradients) -> Prediction:
    sums = _theory(setting)["weights"]
    # Mean squares of a ReLU network follow these powers exactly, at any width.
    powers = np.array([0.0, 1.0])
    return {"norms": sums[:, [0, -1]], "entries": _entries(setting, exact(sums)).value, "powers": powers}


def _width_measure(setting: Gradients, key) -> Measurement:
    sums = _measure(setting, key)["weights"]
    norms = sums[:, [0, -1]]
    powers = stacked([propagated(lambda s: _power(setting, s), norms[:, layer]) for layer in (0, 1)])
    return {"norms": norms, "entries": _entries(setting, sums), "powers": powers}


def _power(setting: Gradients, squares: Float[np.ndarray, " widths"]) -> np.floating:
    """Of the width in averaged squares; averaged logarithms of single networks would be biased."""
    return np.polyfit(np.log(setting.widths), np.log(squares), 1)[0]


def _as_entries(setting: Gradients, value: np.ndarray) -> np.ndarray:
    """A gradient of the first layer whose norm shrinks as its entries do."""
    return value / np.array(setting.widths)[:, None]


CLAIMS = (
    Claim(
        id="first-layer-gradient-width",
        title="width shrinks the entries of the first gradient, not its norm",
        statement="""With weight variance C_W/fan-in, and squares averaged over many initialisations, the
        derivative of an output by the first weight matrix has entries of order n^(-1/2) and a norm of order
        one, while the derivative by the last weights has entries of order one and a squared norm that grows
        like n. A single network at every width scatters too much to show these powers.""",
        source=f"{IEMS_402} (first-layer gradients: smaller entry by entry only)",
        quick=Gradients((16, 64, 256), hidden_layers=1, draws=1000),
        full=Gradients((16, 64, 256, 1024, 4096), hidden_layers=1, draws=10_000),
        theory=_width_theory,
        measure=_width_measure,
        compare=compare_each(
            {
                "norms": "squared norm of a layer's gradient",
                "entries": "mean square of its entries",
                "powers": "power of the width in the squared norm",
            }
        ),
        figure=Curves("widths", r"width $n$", lambda setting: ("first layer", "last layer"), along=0),
        wrong={"norms": _as_entries, "entries": scaled(1.2), "powers": shifted(-1.0)},
    ),
    Claim(
        id="layerwise-learning-rates",
        title="weight rates of 1/fan-in make every layer move the output alike",
        statement="""In a critical ReLU network the squared derivatives of the output sum to n_(l-1) |x|^2/n_0
        over the weights and to 1 over the biases of layer l, at any finite width: layers move the output
        alike when weights step with 1/n_(l-1) and biases with 1.""",
        source=orf_543("7") + " (the step of a layer, not its square root)",
        quick=Gradients((16, 64), hidden_layers=3, draws=1000),
        full=Gradients((16, 64, 256), hidden_layers=3, draws=10_000),
        theory=_theory,
        measure=_measure,
        compare=compare_each(
            {"weights": "squared gradients of weights", "biases": "squared gradients of biases"}
        ),
        figure=Curves(lambda setting: np.arange(1, setting.hidden_layers + 2), "layer", "widths", "$n=%d$"),
        wrong={"weights": power(0.5), "biases": scaled(1.2)},
    ),
)
