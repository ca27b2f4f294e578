"""Residual networks at finite width: fluctuations of signal and tangent kernel."""

from dataclasses import dataclass

import jax
import numpy as np

from finitewidth.architecture.residual_mlp import ResidualMLP
from finitewidth.architecture.residual_stack import ResidualStack, residual_stack
from finitewidth.architecture.sequential import Sequential
from finitewidth.course._instruments.network_draws import input_of_size
from finitewidth.course._instruments.residual_networks import residual_draws
from finitewidth.course._lab.claim import Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import compare_each
from finitewidth.course._lab.estimate import combined, jackknife
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import scaled
from finitewidth.statistics.first_order.corrections import corrections

_TEXTS = {
    "V": "n Var of the signal's mean square",
    "D": "n Cov of signal and NTK",
    "F": "n E[f_1 f_2 H_12] of two outputs",
    "A": "n Cov of the NTKs of two outputs",
    "B": "n E[H_12^2] of two outputs",
    "variance": "n Var(NTK)",
}


@dataclass(frozen=True)
class Residual:
    """GELU blocks with a skip and a branch below one; two widths remove the next order in 1/width."""

    widths: tuple[int, int]
    draws: int
    blocks: int = 3
    alpha: float = 0.8
    beta: float = 0.6

    @property
    def network(self) -> Sequential:
        return ResidualMLP(
            self.blocks, 100, "gelu", alpha=self.alpha, beta=self.beta, C_b=0.1, C_W=2.0, lambda_b=0.5
        )

    @property
    def stack(self) -> ResidualStack:
        found = residual_stack(self.network)
        assert found is not None
        return found

    def theory(self) -> Prediction:
        t = corrections(self.network, input_of_size(1.0))
        found = {name: np.asarray(getattr(t, name).item()) for name in "VDFAB"}
        return found | {"variance": found["A"] + 2 * found["B"]}

    def measure(self, key) -> Measurement:
        seeds = jax.random.randint(key, (2,), 0, 2**31 - 1)
        each = [
            _tensors(self.stack, n, self.draws, int(seed)) for n, seed in zip(self.widths, seeds, strict=True)
        ]
        narrow, wide = self.widths
        weight = wide / (wide - narrow)
        return {name: combined((weight, 1 - weight), (each[1][name], each[0][name])) for name in _TEXTS}


def _tensors(net: ResidualStack, n: int, draws: int, seed: int) -> Measurement:
    Phi, H, H_pairs, ffH = (
        found.ravel() for found in residual_draws(net, input_of_size(1.0), n, draws, seed)
    )
    C = net.last.C_W
    Phi, H = Phi - Phi.mean(), H - H.mean()
    moments = np.stack([Phi, H, Phi**2, Phi * H, H**2, H_pairs, ffH], axis=1)
    functions = {
        "V": lambda m: n * C**2 * (m[2] - m[0] ** 2),
        "D": lambda m: n * C * (m[3] - m[0] * m[1]),
        "F": lambda m: n * m[6],
        "A": lambda m: n * (m[4] - m[1] ** 2),
        "B": lambda m: n * m[5],
        "variance": lambda m: n * (m[4] - m[1] ** 2 + 2 * m[5]),
    }
    return {name: jackknife(moments, function) for name, function in functions.items()}


CLAIMS = (
    Claim(
        id="residual-order-one",
        title="a residual network's fluctuations of order 1/width remember the skip",
        statement=(
            "In a residual network of dense branches every neuron is a Gaussian trajectory through the "
            "layers, with Cov(z^l, z^m) = alpha^(l-m) K^m. At one input V, D, F, A and B, and with "
            "them the variance (A + 2B)/n of the NTK, follow from the covariances of one neuron between all "
            "pairs of layers and from the linear response of the averages over neurons."
        ),
        source=f"{BEYOND}: residual networks by the method of {BOOK}",
        quick=Residual(widths=(20, 80), draws=10_000),
        full=Residual(widths=(32, 64), draws=100_000),
        compare=compare_each(_TEXTS),
        wrong={"V": scaled(0.5), "D": scaled(0.5), "F": scaled(1.4), "B": scaled(1.3)},
    ),
)
