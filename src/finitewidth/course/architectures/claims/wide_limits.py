"""Networks with residual blocks, norms and branches approach their rules as they grow wide."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.concat import Concat
from finitewidth.architecture.dense import Dense
from finitewidth.architecture.dropout import Dropout
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.normalisation import LayerNorm, RMSNorm
from finitewidth.architecture.product import Product
from finitewidth.architecture.residual import Residual
from finitewidth.architecture.scale import Scale
from finitewidth.architecture.sequential import Sequential
from finitewidth.architecture.sums import Sum
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import z_score
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.architectures.claims._shared import GROWTH, limits_and_scatter, scatter_check
from finitewidth.course.architectures.networks.layered_networks import kernels_of_draws
from finitewidth.statistics.wide.kernels import kernels

Layers = tuple[Layer, ...]
# What single precision leaves of numbers that are the same in every network.
_SINGLE = 1e-5
# Weight matrices of a network, at most about.
_MATRICES = 4
# How far the exponent of the scatter may be from -1, times the first width.
_NEXT_ORDER = 1.2


def _dense(width: int, C_b: float = 0.2, C_W: float = 1.4) -> Dense:
    return Dense(width, C_b, C_W, 0.6, 1.1)


def _residual(n: int, beta: float = 0.6) -> Layers:
    plain = Residual(Activate("gelu"), _dense(n), alpha=0.8, beta=beta)
    weighted = Residual(Activate("gelu"), _dense(n), shortcut=[_dense(n), Scale(0.7)])
    return _dense(n), plain, weighted, Activate("gelu")


def _norm_before(n: int, norm: Layer, last: Layer) -> Layers:
    return (
        _dense(n, 0.2, 5.0),
        Residual(norm, _dense(n), Activate("gelu"), _dense(n)),
        last,
        Activate("gelu"),
    )


def _norm_behind(n: int, norm: Layer) -> Layers:
    return _dense(n), Activate("relu"), norm, _dense(n), Activate("relu"), norm


def _branches(n: int, kind: Callable[..., Layer], first: int = 1) -> Layers:
    branches = [_dense(first * n, 0.5, 2.0)], [_dense(n), Activate("erf"), _dense(n, 0.0, 1.0)]
    return _dense(n), Activate("gelu"), kind(*branches), _dense(n), Activate("gelu")


def _dropped(n: int, keep: float) -> Layers:
    return _dense(n), Activate("relu"), Dropout(keep), _dense(n), Activate("relu"), Dropout(keep)


# The layers below the readout for a width, and those of a mistaken theory.
NETWORKS: dict[str, tuple[Callable[[int], Layers], Callable[[int], Layers]]] = {
    "residual": (_residual, lambda n: _residual(n, beta=0.6**0.5)),
    "layer norm": (
        lambda n: _norm_before(n, LayerNorm(0.5, 0.3), LayerNorm(None, 0.3)),
        lambda n: _norm_before(n, Scale(1.0), Scale(1.0)),
    ),
    "layer norm behind neurons": (
        lambda n: _norm_behind(n, LayerNorm(0.5, 0.3)),
        lambda n: _norm_behind(n, RMSNorm(0.5, 0.3)),
    ),
    "rms norm": (
        lambda n: _norm_behind(n, RMSNorm(0.5, 0.3)),
        lambda n: _norm_behind(n, LayerNorm(0.5, 0.3)),
    ),
    "sum": (lambda n: _branches(n, Sum), lambda n: _branches(n, Concat)),
    "product": (lambda n: _branches(n, Product), lambda n: _branches(n, Sum)),
    "concatenation": (lambda n: _branches(n, Concat, 3), lambda n: _branches(n, Concat)),
    "dropout": (lambda n: _dropped(n, 0.6), lambda n: _dropped(n, 1.0)),
}


@dataclass(frozen=True)
class WideLimit(RandomProblem):
    """Networks of a kind, of two widths, the second six times the first."""

    kind: str
    width: int
    draws: int

    @property
    def inputs(self) -> Float[np.ndarray, "3 4"]:
        """Three inputs."""
        return self.rng(0).normal(size=(3, 4))

    @property
    def widths(self) -> tuple[int, int]:
        return self.width, GROWTH * self.width

    def network(self, width: int, mistaken: bool = False) -> Sequential:
        """The network with one output."""
        return Sequential(*NETWORKS[self.kind][mistaken](width), Dense(1, 0.1, 1.2, 0.4, 0.9))

    def theory(self) -> Prediction:
        return _predicted(self)

    def measure(self, key: PRNGKeyArray) -> Measurement:
        found: dict[str, list[Any]] = {"nngp": [], "ntk": []}
        for width, own in zip(self.widths, jax.random.split(key), strict=True):
            drawn = kernels_of_draws(
                self.network(width), self.inputs, own, self.draws, _MATRICES * len(self.inputs) * width**2
            )
            for name, each in drawn.items():
                found[name].append(each)
        return limits_and_scatter(found)

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        for name in ("nngp", "ntk"):
            yield z_score(
                f"{name}, extrapolated from both widths",
                predicted[name],
                measured[name],
                _SINGLE * predicted[name].max(),
                "rounding in single precision",
            )
        yield from scatter_check(predicted, measured, _NEXT_ORDER / self.width)


def _predicted(setting: WideLimit, mistaken: bool = False) -> Prediction:
    nngp, ntk = kernels(
        setting.network(1 if setting.kind != "concatenation" else 3, mistaken), setting.inputs
    )
    return {"nngp": np.asarray(nngp), "ntk": np.asarray(ntk), "exponent": np.array(-1.0)}


def _mistaken(name: str) -> Callable[[WideLimit, np.ndarray], np.ndarray]:
    """The kernel of a network that someone might take for this one."""
    return lambda setting, value: np.asarray(_predicted(setting, mistaken=True)[name])


def _claim(kind: str, title: str, statement: str, width: int = 16) -> Claim:
    return Claim(
        id=f"{kind.replace(' ', '-')}-kernels",
        title=title,
        statement=f"""{statement} Mean kernels of random networks reach this limit with an error of order
        1/width, and the variance of the logarithm of one network's NTK is of order 1/width.""",
        source=f"{BEYOND}: the moments of one layer, as in {BOOK}",
        quick=WideLimit(kind, width, 1000),
        full=WideLimit(kind, 48, 15_000),
        wrong={"nngp": _mistaken("nngp"), "ntk": _mistaken("ntk"), "exponent": (scaled(0.5), scaled(2.0))},
    )


CLAIMS = (
    _claim(
        "residual",
        "a residual block adds kernels with the squares of its factors",
        "K' = alpha^2 K_shortcut + beta^2 K_body for a body that ends in random weights; so does the NTK.",
    ),
    _claim(
        "layer norm",
        "a norm of preactivations divides both kernels by the standard deviations",
        "K' = K/(r r') with r^2 the variance; gain and shift add lambda_g K' + lambda_s to the NTK.",
    ),
    _claim(
        "layer norm behind neurons",
        "a LayerNorm behind neurons subtracts the product of their means",
        "K' = (<s s'> - m m')/(d d') with m = <s> and d^2 = <s^2> - m^2; the NTK is divided by d d'.",
        # The next order in 1/width is large where a norm subtracts most of what it divides.
        24,
    ),
    _claim(
        "rms norm",
        "an RMSNorm behind neurons subtracts nothing",
        "K' = <s s'>/(r r') with r^2 = <s^2>; the NTK is divided by r r'.",
    ),
    _claim(
        "sum",
        "kernels of independent branches add up",
        "K' is the sum of the kernels of branches with random weights of their own, and so is the NTK.",
    ),
    _claim(
        "product",
        "kernels of independent branches multiply",
        "K' is the product of the branches' kernels, and the NTK follows the product rule of derivatives.",
    ),
    _claim(
        "concatenation",
        "concatenated channels average kernels by their number",
        "K' is the mean of the branches' kernels, weighted with their shares of the channels.",
    ),
    _claim(
        "dropout",
        "dropout divides the kernel of an input with itself by the probability to keep",
        "In training, with masks of its own for each input, K'(x, x) = K(x, x)/keep; between inputs K' = K.",
        24,
    ),
)
