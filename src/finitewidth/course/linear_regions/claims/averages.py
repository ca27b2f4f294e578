"""How many breakpoints random networks have on a line: in proportion to their neurons."""

import functools
from dataclasses import dataclass

import jax
import numpy as np

from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, z_score
from finitewidth.course._lab.estimate import Estimate, exact, sample_mean, stacked
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import BEYOND, orf_543
from finitewidth.course.linear_regions.networks.relu_regions import random_layers, relu_program
from finitewidth.course.linear_regions.theory.linear_regions import (
    expected_breakpoints,
    line_breakpoints,
    wide_breakpoints,
)
from finitewidth.measure import regions
from finitewidth.measure.regions.program import Program

_SOURCE = orf_543("12/5")
C_B, C_W = 0.5, 2.0
# Standard errors of the theory's own average that are allowed for.
_ALLOWED = 4.5


@dataclass(frozen=True)
class Shallow:
    """Networks with one input and one hidden layer, on some intervals and on the whole line."""

    width: int
    draws: int
    intervals: tuple[tuple[float, float], ...] = ((-1.0, 2.0), (0.0, 0.5), (1.0, 4.0))

    @property
    def network(self) -> MLP:
        """One hidden layer."""
        return MLP((self.width,), "relu", C_B, C_W)

    def theory(self) -> Prediction:
        counts = [wide_breakpoints(self.network, [a], [b]).sum() for a, b in self.intervals]
        return {"breakpoints": np.array(counts), "on the line": np.array(float(self.width))}

    def measure(self, key) -> Measurement:
        found = [_line(relu_program(layers)) for layers in random_layers(self.network, 1, key, self.draws)]
        counts = np.array([[_inside(one, interval) for interval in self.intervals] for one in found])
        return {
            "breakpoints": sample_mean(counts),
            "on the line": exact(np.array([len(one) for one in found])),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            z_score("breakpoints by interval", predicted["breakpoints"], measured["breakpoints"]),
            absolute_error(
                "breakpoints on the line", predicted["on the line"], measured["on the line"], 1e-9
            ),
        ]


def _uniform(setting: Shallow, value: np.ndarray) -> np.ndarray:
    """In proportion to the length of the interval."""
    lengths = np.array([b - a for a, b in setting.intervals])
    return value.sum() * lengths / lengths.sum()


def _inverse_scale(setting: Shallow, value: np.ndarray) -> np.ndarray:
    """Cauchy of scale sqrt(C_W / C_b)."""
    scale = np.sqrt(C_W / C_B)
    a, b = np.array(setting.intervals).T
    return setting.width / np.pi * (np.arctan(b / scale) - np.arctan(a / scale))


@dataclass(frozen=True, kw_only=True)
class Deep(RandomProblem):
    """Deep networks with one input, on an interval and on the whole line."""

    hidden: tuple[tuple[int, ...], ...]
    draws: int
    theory_draws: int
    interval: tuple[float, float] = (-3.0, 3.0)

    @property
    def networks(self) -> list[MLP]:
        """One for each choice of widths."""
        return [MLP(hidden, "relu", C_B, C_W) for hidden in self.hidden]

    @functools.cached_property
    def laws(self) -> list[Estimate]:
        """Breakpoints by layer of each network, averaged over draws of the theory's own."""
        (a, b), draws = self.interval, self.theory_draws
        keys = jax.random.split(jax.random.key(self.seed), len(self.hidden))
        return [
            expected_breakpoints(net, [a], [b], key=key, draws=draws)
            for net, key in zip(self.networks, keys, strict=True)
        ]

    def theory(self) -> Prediction:
        return {
            "breakpoints": np.array([law.value.sum() for law in self.laws]),
            "on the line": np.array([line_breakpoints(hidden) for hidden in self.hidden]),
        }

    def measure(self, key) -> Measurement:
        inside, line = [], []
        for place, net in enumerate(self.networks):
            drawn = random_layers(net, 1, jax.random.fold_in(key, place), self.draws)
            found = [_line(relu_program(layers)) for layers in drawn]
            inside.append(sample_mean(np.array([_inside(one, self.interval) for one in found])))
            line.append(sample_mean(np.array([len(one) for one in found])))
        return {"breakpoints": stacked(inside), "on the line": stacked(line)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # Errors of layers are correlated, so that they add up in the worst case.
        allowed = np.array([_ALLOWED * law.sem.sum() for law in self.laws])
        return [
            z_score(
                "breakpoints in the interval",
                predicted["breakpoints"],
                measured["breakpoints"],
                allowed,
                "the sampling error of the theory",
            ),
            z_score("breakpoints on the line", predicted["on the line"], measured["on the line"]),
        ]


def _line(program: Program) -> np.ndarray:
    """Every breakpoint on the whole line."""
    return regions.line_regions(program, [0.0], [1.0], whole=True).breakpoints


def _inside(breakpoints: np.ndarray, interval: tuple[float, float]) -> int:
    return int(np.sum((breakpoints > interval[0]) & (breakpoints < interval[1])))


def _at_infinite_width(setting: Deep, value: np.ndarray) -> np.ndarray:
    """The limit of infinite width, whatever depth over width."""
    a, b = setting.interval
    return np.array([wide_breakpoints(net, [a], [b]).sum() for net in setting.networks])


def _exponential(setting: Deep, value: np.ndarray) -> np.ndarray:
    """A factor of two for every layer above the first."""
    return np.array([hidden[0] * 2.0 ** (len(hidden) - 1) for hidden in setting.hidden])


CLAIMS = (
    Claim(
        id="regions-average-1d-shallow",
        title="one hidden layer: breakpoints are Cauchy",
        statement="""The breakpoints of a random ReLU network with one input and one hidden layer of n neurons
        are independent with a Cauchy density of scale s = sqrt(C_b / C_W): on average
        (n / pi) (atan(b/s) - atan(a/s)) of them in [a, b], and n on the line.""",
        source=_SOURCE,
        quick=Shallow(width=30, draws=400),
        full=Shallow(width=30, draws=20_000),
        wrong={
            "breakpoints": (_uniform, _inverse_scale),
            "on the line": lambda setting, value: value + 1,
        },
    ),
    Claim(
        id="regions-average-1d-deep",
        title="deep networks: breakpoints in proportion to neurons",
        statement="""A random deep ReLU network with one input has about as many breakpoints as neurons, not
        exponentially many in its depth. Exactly at every width, the mean number of changes of the pattern in
        [a, b] is sum_l n_l E[arccos(rho_l)/pi], with rho_l the correlation of alpha a + beta and
        alpha b + beta, (alpha, beta) Gaussian of covariance G_l, G_1 = diag(C_W, C_b), and G_{l+1} =
        diag(0, C_b) + (C_W/n_l) times a Wishart matrix of G_l with as many degrees of freedom as n_l fair
        coins show heads. On the line it is sum_l n_l prod_{i<l} (1 - 2^{-n_i}).""",
        source=f"{_SOURCE}; at finite width {BEYOND[0].lower()}{BEYOND[1:]}",
        quick=Deep(hidden=((40, 40, 40), (10,) * 10, (2, 2, 2, 2)), draws=120, theory_draws=6000),
        full=Deep(
            hidden=((100, 100), (40, 40, 40), (20,) * 6, (20,) * 20, (10,) * 10, (3, 3, 3), (2, 2, 2, 2)),
            draws=4000,
            theory_draws=400_000,
        ),
        wrong={
            "breakpoints": (_at_infinite_width, _exponential),
            "on the line": (
                _exponential,
                lambda setting, value: np.array([float(sum(hidden)) for hidden in setting.hidden]),
            ),
        },
    ),
)
