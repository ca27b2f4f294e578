"""How much the tangent kernel has moved once a network has learned one input."""

from dataclasses import dataclass

import jax
import numpy as np
from jax import lax
from jaxtyping import Array, Float

from finitewidth.advice.tuning.advice import tune
from finitewidth.advice.tuning.learning_rates import kernel_change
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import Params
from finitewidth.course._instruments.network_draws import input_of_size, over_networks
from finitewidth.course._lab.claim import Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each
from finitewidth.course._lab.estimate import sample_mean, stacked
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.finite_width_at_initialisation.networks.tensors import extrapolated
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk

_TARGET = 1.0
_SQUARE = 1.0
# Steps of this share of the mean NTK's inverse; what is left of the error then is exp(-12).
_STEP = 0.05
_STEPS = 240


@dataclass(frozen=True)
class Motion:
    """Networks with equal-share learning rates at several depths, one input, one output."""

    activation: str
    depths: tuple[int, ...]
    width: int
    draws: int

    def network(self, depth: int, width: int) -> Layer:
        return tune(self.activation, depth, width).net

    def theory(self) -> Prediction:
        width = self.width
        changes = [width * kernel_change(self.network(d, width), _SQUARE, _TARGET) for d in self.depths]
        return {"change": np.array(changes)}

    def measure(self, key) -> Measurement:
        """The rates make the mean NTK one, so its change is relative already."""
        x = input_of_size(_SQUARE)
        estimates = []
        for depth, k in zip(self.depths, jax.random.split(key, len(self.depths)), strict=True):
            at_width = []
            for times, width_key in zip((1, 2), jax.random.split(k), strict=True):
                net = self.network(depth, times * self.width)
                change = over_networks(net, x, width_key, self.draws, _trained)
                at_width.append(sample_mean(times * self.width * change))
            estimates.append(extrapolated(*at_width))
        return {"change": stacked(estimates)}


def _trained(net: Layer, params: Params, x: Float[Array, "1 d"]) -> Array:
    """Relative change of the NTK when gradient descent has fitted the target."""
    rates = net.learning_rates(x.shape[1])

    def output(p: Params) -> Array:
        return net.apply(p, x)[0, 0]

    def step(p, _):
        z, gradient = jax.value_and_grad(output)(p)
        move = lambda parameter, rate, g: parameter - _STEP * rate * (z - _TARGET) * g
        return jax.tree.map(move, p, rates, gradient), None

    end, _ = lax.scan(step, params, length=_STEPS)
    before, after = (empirical_ntk(net, p, x)[0, 0, 0, 0] for p in (params, end))
    return after - before


def _left_out(setting: Motion, value: np.ndarray) -> np.ndarray:
    """The step leaves half of itself, relative; two widths leave the square of depth/width."""
    return (_STEP / 2 + (np.array(setting.depths) / setting.width) ** 2) * np.abs(value)


CLAIMS = (
    Claim(
        id="kernel-change-one-input",
        title="training moves the NTK by c/n, c known",
        statement="""While a network learns one input, its NTK changes by the relative amount c/n on average,
        with c a combination of K, Theta and P to U. Learning rates that give every layer an equal share of
        the NTK keep c of order L(1 + y^2/K) for critical tanh networks: when depth and width grow together,
        the motion neither vanishes nor blows up.""",
        source=f"{BEYOND}: {BOOK}, chapters 9 and 11; one-input formula derived here",
        quick=Motion("tanh", (2, 4), width=24, draws=1000),
        full=Motion("tanh", (2, 4, 6), width=32, draws=3000),
        compare=compare_each({"change": "n E[change of the NTK] / Theta"}, within=_left_out),
        figure=Curves("depths", "depth L"),
        # Two widths extrapolated have more noise than either, and wider networks would take a minute.
        notices={"change": (2.0, 1.3)},
        wrong={"change": scaled(2.0)},
    ),
)
