"""Residual networks at finite width and two inputs: every entry of V, D, F, A and B."""

from dataclasses import dataclass

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.residual_stack import ResidualStack, residual_stack
from finitewidth.architecture.sequential import Sequential
from finitewidth.course._instruments.residual_networks import residual_draws
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.estimate import combined, sample_mean
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import scaled
from finitewidth.statistics.first_order.corrections import corrections
from finitewidth.statistics.first_order.residual_corrections import ResidualCorrections

# Affine layers of the network.
_DEPTH = 6
_X = np.array([[1.0, 0.3], [-0.4, 1.2]])
_LETTERS = {
    "V": "n Cov of the signals of two outputs",
    "D": "n Cov of signal and NTK",
    "F": "n E[f f H] of two outputs",
    "A": "n Cov of the NTKs of two outputs",
    "B": "n E[H H] between two outputs",
    "variance": "n Var(NTK)",
}


@dataclass(frozen=True)
class Blocks:
    """Three blocks with skips, branches and variances of their own, then a plain layer.

    Two widths remove the next order in 1/width.
    """

    activations: tuple[str, ...]
    widths: tuple[int, int]
    draws: int

    def network(self, activation: str, width: int = 100) -> Sequential:
        neurons = Activate(activation)
        dense = lambda C_b, C_W: (neurons, Dense(width, C_b, C_W, 0.4, 0.9))
        return Sequential(
            Dense(width, 0.1, 1.2, 0.3, 0.8),
            Residual(*dense(0.1, 1.5), alpha=0.8, beta=0.7),
            Residual(*dense(0.0, 2.0), alpha=1.0, beta=0.5),
            *dense(0.2, 1.4),
            Residual(*dense(0.1, 1.8), alpha=0.9, beta=0.6),
            neurons,
            Dense(1, 0.0, 1.3, 0.5, 0.7),
        )

    def theory(self) -> Prediction:
        found = {}
        for activation in self.activations:
            t = corrections(self.network(activation), _X)
            assert isinstance(t, ResidualCorrections)
            named = {name: np.asarray(getattr(t, name)) for name in "VDFAB"}
            named["variance"] = np.asarray(t.width * t.ntk_variance)
            found |= {f"{name} {activation}": value for name, value in named.items()}
        return found

    def measure(self, key: PRNGKeyArray) -> Measurement:
        narrow, wide = self.widths
        weight = wide / (wide - narrow)
        found = {}
        for activation, own in zip(
            self.activations, jax.random.split(key, len(self.activations)), strict=True
        ):
            stack = residual_stack(self.network(activation))
            assert stack is not None
            seeds = jax.random.randint(own, (2,), 0, 2**31 - 1)
            few, many = (
                _tensors(stack, n, self.draws, int(seed)) for n, seed in zip(self.widths, seeds, strict=True)
            )
            for name in _LETTERS:
                found[f"{name} {activation}"] = combined((weight, 1 - weight), (many[name], few[name]))
        return found

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        """What two widths leave is of order (depth / width)^2."""
        narrow, wide = self.widths
        left_out = _DEPTH**2 / (narrow * wide)
        for activation in self.activations:
            for name, text in _LETTERS.items():
                key = f"{name} {activation}"
                scale = np.abs(predicted[key]).max()
                yield z_score(f"{text}, {activation}", predicted[key], measured[key], left_out * scale)


def _tensors(net: ResidualStack, n: int, draws: int, seed: int) -> Measurement:
    Phi, H, H_pairs, ffH = residual_draws(net, _X, n, draws, seed)
    signal, kernel = net.last.C_W * (Phi - Phi.mean(axis=0)), H - H.mean(axis=0)
    covariance = lambda left, right: sample_mean(n * np.einsum("sab,scd->sabcd", left, right))
    crossed = np.einsum("saabb->sab", H_pairs) + np.einsum("sabba->sab", H_pairs)
    return {
        "V": covariance(signal, signal),
        "D": covariance(signal, kernel),
        "F": sample_mean(n * ffH),
        "A": covariance(kernel, kernel),
        "B": sample_mean(n * H_pairs),
        "variance": sample_mean(n * (kernel**2 + crossed)),
    }


CLAIMS = (
    Claim(
        id="residual-order-one-two-inputs",
        title="a residual network's fluctuations of order 1/width at two inputs",
        statement="""Every entry of V, D, F, A and B at two inputs, and the variance of every entry of the
        NTK, are sums over pairs of layers of averages over one neuron, a Gaussian trajectory with
        Cov(z^l, z^m) = K^m times the skips from m to l; between two of its layers the tangent kernel is
        Theta^m times the same skips. Blocks may differ, and plain layers stand among them.""",
        source=f"{BEYOND}: residual networks by the method of {BOOK}; derived in this book",
        quick=Blocks(("gelu", "relu"), widths=(16, 48), draws=6000),
        full=Blocks(("gelu", "relu", "tanh"), widths=(32, 96), draws=40_000),
        wrong={f"{name} gelu": scaled(f) for name, f in (("V", 0.4), ("D", 0.4), ("F", 1.4), ("B", 1.3))},
    ),
)
