"""Convolutional and attention networks approach their rules as they grow wide."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Float, PRNGKeyArray, PyTree

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.attention import SelfAttention
from finitewidth.architecture.convolution import Conv
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.pooling import Flatten, GlobalAveragePool
from finitewidth.architecture.sequential import Sequential
from finitewidth.course._instruments.network_draws import over_networks
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.architectures.claims._shared import GROWTH, limits_and_scatter, scatter_check
from finitewidth.networks.tangent.tangent_kernel import empirical_ntk
from finitewidth.statistics.wide.kernels import kernels

Layers = tuple[Layer, ...]
# How far the exponent of the scatter may be from -1, times the first width: windows average over positions.
_NEXT_ORDER = 0.6


def _convolutions(n: int, head: Layer) -> Layers:
    """Two convolutions, one with zeros and one with the opposite side beyond the edges, and a stride."""
    first = Conv(n, (3, 2), 1, "SAME", 0.2, 1.4, 0.6, 1.1)
    second = Conv(n, (2, 2), (2, 1), "CIRCULAR", 0.1, 1.3, 0.5, 0.9)
    return first, Activate("relu"), second, Activate("relu"), head


def _attention(n: int, kind: str, scaling: str) -> Layers:
    """As many heads as channels, and as wide: both must grow."""
    attention = SelfAttention(n, n, n, kind, scaling, 0.2, 0.9, 1.1, 0.6, 0.7, 0.8)
    return Dense(n, 0.2, 1.0, 0.6, 1.1), attention, Activate("relu"), GlobalAveragePool()


# The layers below the readout for a width, those of a mistaken theory, and the shape of an input.
NETWORKS: dict[str, tuple[Callable[[int], Layers], Callable[[int], Layers], tuple[int, ...]]] = {
    "flattened": (
        lambda n: _convolutions(n, Flatten()),
        lambda n: _convolutions(n, GlobalAveragePool()),
        (4, 3, 2),
    ),
    "pooled": (
        lambda n: _convolutions(n, GlobalAveragePool()),
        lambda n: _convolutions(n, Flatten()),
        (4, 3, 2),
    ),
    "average logits": (
        lambda n: _attention(n, "softmax", "linear"),
        lambda n: _attention(n, "softmax", "linear-untied"),
        (3, 4),
    ),
}


def drawn_kernels(net: Sequential, params: PyTree, x: Float[Array, "n ..."]) -> dict[str, Array]:
    """Covariance of an output over the readout's weights, and NTK, of one network."""
    *below, readout = net.layers
    assert isinstance(readout, Dense)
    z = Sequential(*below).apply(params[:-1], x)
    C_b, C_W, _, _ = readout.hyperparameters
    return {"nngp": C_b + C_W * z @ z.T / z.shape[1], "ntk": empirical_ntk(net, params, x)[0, 0]}


@dataclass(frozen=True)
class PositionsLimit(RandomProblem):
    """Networks of a kind, of two widths, the second six times the first."""

    kind: str
    width: int
    draws: int

    @property
    def inputs(self) -> Float[np.ndarray, "2 ..."]:
        """Two inputs, all entries of order one."""
        return self.rng(0).normal(size=(2, *NETWORKS[self.kind][2]))

    @property
    def widths(self) -> tuple[int, int]:
        return self.width, GROWTH * self.width

    def network(self, width: int, mistaken: bool = False) -> Sequential:
        """The network with one output."""
        right, wrong, _ = NETWORKS[self.kind]
        return Sequential(*(wrong if mistaken else right)(width), Dense(1, 0.1, 1.2, 0.4, 0.9))

    def predicted(self, mistaken: bool = False) -> Prediction:
        nngp, ntk = kernels(self.network(1, mistaken), self.inputs)
        return {"nngp": np.asarray(nngp), "ntk": np.asarray(ntk), "exponent": np.array(-1.0)}

    def theory(self) -> Prediction:
        return self.predicted()

    def measure(self, key: PRNGKeyArray) -> Measurement:
        found: dict[str, list[Any]] = {"nngp": [], "ntk": []}
        for width, own in zip(self.widths, jax.random.split(key), strict=True):
            net = self.network(width)
            drawn = over_networks(net, self.inputs, own, self.draws, drawn_kernels)
            for name, each in drawn.items():
                found[name].append(each)
        return limits_and_scatter(found)

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for name in ("nngp", "ntk"):
            yield z_score(f"{name}, extrapolated from both widths", predicted[name], measured[name])
        yield from scatter_check(predicted, measured, _NEXT_ORDER / self.width)


def _mistaken(name: str) -> Callable[[PositionsLimit, np.ndarray], np.ndarray]:
    """The kernel of a network that someone might take for this one."""
    return lambda setting, value: np.asarray(setting.predicted(mistaken=True)[name])


def _claim(
    kind: str,
    id: str,
    title: str,
    statement: str,
    width: int,
    draws: int,
    notices: dict[str, tuple[float, float]] | None = None,
    **wrong,
) -> Claim:
    return Claim(
        id=id,
        title=title,
        statement=f"""{statement} Mean kernels of random networks reach this limit with an error of order
        1/width, and the variance of the logarithm of one network's NTK is of order 1/width.""",
        source=f"{BEYOND}: the moments of one layer, as in {BOOK}",
        quick=PositionsLimit(kind, width, draws),
        full=PositionsLimit(kind, 2 * width, 8 * draws),
        # A head for every channel: such networks are slow to draw.
        notices=notices or {},
        wrong={"nngp": _mistaken("nngp"), "ntk": _mistaken("ntk"), "exponent": (scaled(0.5), scaled(2.0))}
        | wrong,
    )


CLAIMS = (
    _claim(
        "flattened",
        "convolution-flatten-kernels",
        "a flattened convolutional network reads equal positions only",
        """One shift d of the window moves both positions, K'_pp' = C_b + C_W/|D| sum_d K_(p+d)(p'+d), and a
        readout with its own weights at every position averages the kernels at equal positions.""",
        12,
        1400,
    ),
    _claim(
        "pooled",
        "convolution-pool-kernels",
        "a pooled convolutional network averages the kernels of all pairs of positions",
        """One shift d of the window moves both positions, K'_pp' = C_b + C_W/|D| sum_d K_(p+d)(p'+d), and the
        average over positions averages the kernels over all pairs of them.""",
        12,
        1400,
    ),
    _claim(
        "average logits",
        "attention-average-logits",
        "attention with logits divided by the head width has fixed weights",
        """With one matrix for keys and queries the logits of an input are C_QK K of that input with itself,
        K' = C_b + C_OV S K S'^T, and no gradient reaches the weights S.""",
        8,
        400,
        notices={"exponent": (2.0, 1.3)},
        nngp=scaled(1.5),
        ntk=scaled(1.5),
    ),
)
