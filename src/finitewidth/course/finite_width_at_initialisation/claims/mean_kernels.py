"""What finite width does to the mean kernels."""

from dataclasses import dataclass

import jax
import numpy as np

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.finite_width_at_initialisation.networks.kernel_shifts import measured_shifts
from finitewidth.course.finite_width_at_initialisation.networks.tensors import extrapolated
from finitewidth.statistics.first_order.corrections import dense_corrections

_X = np.array([[1.0, 0.3], [-0.4, 1.2]])
_SHIFTS = ("G1", "H1")


@dataclass(frozen=True)
class Means:
    """GELU networks of several depths, two inputs, the widths given and twice as wide."""

    architectures: tuple[tuple[int, ...], ...]
    draws: int

    def network(self, hidden: tuple[int, ...], times: int = 1) -> Layer:
        return MLP(tuple(times * n for n in hidden), "gelu", 0.2, 1.5, 0.5, 0.8)

    def theory(self) -> Prediction:
        prediction = {}
        for hidden in self.architectures:
            tensors = dense_corrections(self.network(hidden), _X)
            for name in _SHIFTS:
                prediction[f"{name} depth {len(hidden) + 1}"] = np.asarray(getattr(tensors, name))
        return prediction

    def measure(self, key) -> Measurement:
        measurement = {}
        for hidden in self.architectures:
            key, first, second = jax.random.split(key, 3)
            narrow, wide = (
                measured_shifts(self.network(hidden, times), _X, k, self.draws)
                for times, k in ((1, first), (2, second))
            )
            for name in _SHIFTS:
                measurement[f"{name} depth {len(hidden) + 1}"] = extrapolated(narrow[name], wide[name])
        return measurement

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        """Two widths remove the next order, which leaves (depth/width)^2."""
        for hidden in self.architectures:
            depth = len(hidden) + 1
            for name in _SHIFTS:
                key = f"{name} depth {depth}"
                allowed = (depth / min(hidden)) ** 2 * np.abs(predicted[key]).max()
                yield z_score(key, predicted[key], measured[key], allowed)


CLAIMS = (
    Claim(
        id="mean-kernel-shift",
        title="mean kernels shift by G1/n and H1/n",
        statement="""The mean of a product of two outputs and the mean NTK of GELU networks differ from their
        infinite-width values by G1/n and H1/n, at equal and at different inputs. Networks and their halves,
        coupled so that first-order fluctuations cancel, show both to a few percent.""",
        source=f"{BEYOND}: {BOOK}, chapters 4 and 8; several inputs derived here",
        quick=Means(((16, 16),), draws=6000),
        full=Means(((16, 16), (16, 24, 16)), draws=4000),
        wrong={"G1 depth 3": scaled(1.5), "H1 depth 3": scaled(1.3)},
    ),
)
