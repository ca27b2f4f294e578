"""Lazy training by scale: a model with large outputs follows its linearisation."""

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.shapes.orders import fitted_power
from finitewidth.course._lab.sources import IEMS_402
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.lazy_training.networks.linearised_path import linearised_path
from finitewidth.course.lazy_training.networks.one_hidden_sum import tanh_neurons
from finitewidth.report.style import Figure

_QUANTITIES = {
    "weights": r"$|w-w_0|$",
    "weights against linearised": r"$|w-\bar w|$",
    "outputs against linearised": r"$|\alpha h(w)-\alpha\bar h(\bar w)|$",
}


@dataclass(frozen=True)
class Scales:
    """A few neurons with outputs multiplied by growing factors alpha, over one stretch of training.

    The powers are fitted from the scale `smallest` on. Labels have mean square one; larger ones need larger
    scales.
    """

    alphas: tuple[float, ...]
    doubled: bool
    smallest: float
    neurons: int = 20
    points: int = 6
    n_in: int = 3
    steps: int = 200
    eta: float = 0.1

    def start(self, key: PRNGKeyArray) -> Float[Array, "n k"]:
        """Random neurons; doubled ones come in pairs with opposite output weights."""
        rows = jax.random.normal(key, (self.neurons, self.n_in + 1))
        if not self.doubled:
            return rows
        half = rows[: self.neurons // 2]
        return jnp.concatenate([half, half.at[:, -1].multiply(-1)])

    def theory(self) -> Prediction:
        """The second-order term of the outputs is what a pair of opposite neurons cancels."""
        outputs = -2.0 if self.doubled else -1.0
        return {"exponents": np.array([-1.0, -2.0, outputs])}

    def measure(self, key) -> Measurement:
        data_key, net_key = jax.random.split(key)
        x = jax.random.normal(data_key, (self.points, self.n_in))
        y = jnp.sin(2 * x[:, :1]) + x[:, 1:2] * x[:, 2:3]
        y = y / jnp.sqrt(jnp.mean(y**2))
        start = self.start(net_key)
        gaps = np.array([_gaps(self, start, alpha, x, y) for alpha in self.alphas])
        large = np.array(self.alphas) >= self.smallest
        slopes = [fitted_power(np.array(self.alphas)[large], gap[large]) for gap in gaps.T]
        return {"gaps": exact(gaps), "exponents": exact(np.array(slopes))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        slopes = measured["exponents"].value
        return [
            absolute_error(f"exponent of alpha: {name}", predicted["exponents"][i], slopes[i], 0.05)
            for i, name in enumerate(_QUANTITIES)
        ]

    def figure(self, predicted: Prediction, measured: Measurement) -> Figure:
        pairs = ", neurons in opposite pairs" if self.doubled else ""
        gaps, powers = measured["gaps"], predicted["exponents"]
        laws = {label: (gaps[:, i], powers[i]) for i, label in enumerate(_QUANTITIES.values())}
        title, ylabel = f"Large outputs make training lazy{pairs}", "largest distance in training"
        return power_laws(title, self.alphas, laws, r"scale $\alpha$", ylabel)


def _gaps(setting: Scales, start: Array, alpha: float, x: Array, y: Array) -> list[float]:
    """Largest distances in one run: of the weights, and from the linearised model."""
    run = linearised_path(
        tanh_neurons,
        start,
        x,
        y,
        learning_rate=setting.eta,
        steps=setting.steps,
        scale=alpha,
        centred=True,
        record_every=10,
    )
    return list(run.largest)


def _other_start(setting: Scales, value: np.ndarray) -> np.ndarray:
    """The exponents of doubled neurons for single ones, and the other way round."""
    return np.append(value[:2], -3 - value[2])


def _weights_as_far_as_they_move(setting: Scales, value: np.ndarray) -> np.ndarray:
    """Weights of order 1/alpha away from those of the linearised model."""
    return np.array([value[0], -1.0, value[2]])


_SOURCE = f"{IEMS_402}, lazy training (made quantitative here)"

CLAIMS = (
    Claim(
        id="lazy-alpha-orders",
        title="laziness in powers of the output scale",
        statement="""Trained on |alpha h - y|^2/(2 alpha^2) with h = 0 at the start and labels of size one,
        the weights move by order 1/alpha, stay within order 1/alpha^2 of those of the linearised model, and
        the outputs within order 1/alpha of its outputs. The powers are seen from alpha = 128 on; larger
        labels need larger alpha.""",
        source=_SOURCE,
        quick=Scales(alphas=(128.0, 256.0, 1024.0), doubled=False, smallest=128.0),
        full=Scales(tuple(2.0**k for k in range(11)), doubled=False, smallest=128.0, steps=1000),
        wrong={"exponents": (_other_start, scaled(0.5), _weights_as_far_as_they_move)},
    ),
    Claim(
        id="lazy-doubled-init",
        title="opposite pairs of neurons are lazier by one power",
        statement="""When neurons come in exact pairs with equal weights, opposite output weights and equal
        learning rates, the second-order terms of partners cancel along the path, and the outputs stay within
        order 1/alpha^2 of those of the linearised model, seen from alpha = 32 on for labels of size one. The
        weights stay within order 1/alpha^2 as without pairs.""",
        source=_SOURCE,
        quick=Scales(alphas=(32.0, 64.0, 256.0), doubled=True, smallest=32.0),
        full=Scales(tuple(2.0**k for k in range(9)), doubled=True, smallest=32.0, steps=1000),
        wrong={"exponents": (_other_start, _weights_as_far_as_they_move)},
    ),
)
