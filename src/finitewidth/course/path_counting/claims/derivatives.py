"""Derivatives of random ReLU networks by their inputs: exact moments, and a log-normal law."""

from dataclasses import dataclass

import jax
import numpy as np
from scipy.special import ndtr
from scipy.stats import chi2

from finitewidth.architecture.mlp import MLP
from finitewidth.course._instruments.linear_networks import random_generator
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, compare_each, z_score
from finitewidth.course._lab.estimate import Estimate, sample_mean, stacked, variance
from finitewidth.course._lab.figures import Curves, layer_names
from finitewidth.course._lab.sources import orf_543
from finitewidth.course.path_counting.networks.relu_layers import relu_networks
from finitewidth.course.path_counting.theory.jacobians import exponential_growth, jacobian_moments, log_norm

_SOURCE = orf_543("11/30") + ", "


@dataclass(frozen=True)
class Architectures:
    """Critical ReLU networks without biases and their derivative by one input at a random point.

    The weights of the output are averaged over: given the layer below, an entry of the Jacobian is Gaussian.
    """

    hidden: tuple[tuple[int, ...], ...]
    draws: int
    n_in: int = 4
    outputs: int = 5
    uniform: tuple[int, ...] = (8,)

    def squares(self, hidden: tuple[int, ...], key, draws: int, at_zero: bool = False) -> np.ndarray:
        """Variance of an entry given the hidden layers, times n_0 / 2."""
        x_key, key = jax.random.split(key)
        x = np.zeros((1, self.n_in)) if at_zero else np.asarray(jax.random.normal(x_key, (1, self.n_in)))
        parts = [
            np.sum(layers.derivative(np.eye(self.n_in)[0]) ** 2, axis=1)
            for layers in relu_networks(x, hidden, key, draws)
        ]
        return np.concatenate(parts) * self.n_in / hidden[-1]


@dataclass(frozen=True)
class SecondMoment(Architectures):
    """Mean squared entries, at random inputs and at zero."""

    def theory(self) -> Prediction:
        second = [jacobian_moments(MLP(h, "relu"), self.n_in).entry_second for h in self.hidden]
        return {
            "second": np.array([float(s) * self.n_in / 2 for s in second]),
            # Every gate is on: two for each hidden layer.
            "at zero": np.array([2.0 ** len(h) for h in self.hidden]),
        }

    def measure(self, key) -> Measurement:
        keys = jax.random.split(key, 2 * len(self.hidden))
        return {
            "second": stacked(
                [sample_mean(self.squares(h, k, self.draws)) for h, k in zip(self.hidden, keys, strict=False)]
            ),
            "at zero": stacked(
                [
                    sample_mean(self.squares(h, k, self.draws, at_zero=True))
                    for h, k in zip(self.hidden, keys[len(self.hidden) :], strict=True)
                ]
            ),
        }


def _squared_gates(setting: Architectures, value: np.ndarray) -> np.ndarray:
    """E[gate]^2 = 1/4 in place of E[gate^2] = 1/2."""
    return value * np.array([0.5 ** len(hidden) for hidden in setting.hidden])


@dataclass(frozen=True)
class FourthMoment(Architectures):
    """Mean fourth powers of entries, of columns, and with uniform weights, in units of (2/n_0)^2."""

    def theory(self) -> Prediction:
        entries = [jacobian_moments(MLP(h, "relu"), self.n_in) for h in self.hidden]
        column = jacobian_moments(MLP(self.hidden[-1], "relu", n_out=self.outputs), self.n_in)
        uniform = jacobian_moments(MLP(self.uniform, "relu"), self.n_in, "uniform")
        return {
            "entry": np.array([m.entry_ratio for m in entries]),
            "column": np.asarray(float(column.column_fourth / column.column_second**2)),
            "uniform": np.asarray(uniform.entry_ratio),
        }

    def measure(self, key) -> Measurement:
        *keys, column_key, uniform_key = jax.random.split(key, len(self.hidden) + 2)
        entries = [
            sample_mean(3 * self.squares(h, k, self.draws) ** 2)
            for h, k in zip(self.hidden, keys, strict=True)
        ]
        # |J e_p|^2 given the layers below is a chi-square with as many degrees of freedom as outputs.
        squares = self.squares(self.hidden[-1], column_key, self.draws)
        x = np.asarray(jax.random.normal(jax.random.fold_in(uniform_key, 1), (1, self.n_in)))
        parts = []
        for layers in relu_networks(x, self.uniform, uniform_key, 4 * self.draws, weights="uniform"):
            moved = layers.derivative(np.eye(self.n_in)[0]) * np.sqrt(self.n_in / self.uniform[-1])
            square, fourth = np.sum(moved**2, axis=1), np.sum(moved**4, axis=1)
            # Uniform weights of unit variance have the fourth moment 9/5.
            parts.append(3 * square**2 + (9 / 5 - 3) * fourth)
        return {
            "entry": stacked(entries),
            "column": sample_mean(squares**2 * (1 + 2 / self.outputs)),
            "uniform": sample_mean(np.concatenate(parts)),
        }


def _exponential(setting: FourthMoment, value: np.ndarray) -> np.ndarray:
    return 3 * np.array([exponential_growth(MLP(hidden, "relu")) for hidden in setting.hidden])


def _pairs_of_equal_neurons(setting: FourthMoment, value: np.ndarray) -> np.ndarray:
    """1 + 6/n: n^2 pairs of different neurons instead of n (n - 1)."""
    return np.array([3 * np.prod([1 + 6 / n for n in hidden]) for hidden in setting.hidden])


def _gaussian_weights(setting: FourthMoment, value: np.ndarray) -> np.ndarray:
    return np.asarray(jacobian_moments(MLP(setting.uniform, "relu"), setting.n_in).entry_ratio)


def _no_outputs(setting: FourthMoment, value: np.ndarray) -> np.ndarray:
    """Without 2/n_out."""
    return np.asarray(value / (1 + 2 / setting.outputs))


@dataclass(frozen=True)
class LogNorms:
    """The length of the last hidden layer, drawn layer by layer.

    Given the layer below, preactivations are independent Gaussians of its mean square.
    """

    width: int
    depth: int
    draws: int
    places: tuple[float, ...] = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0)

    def law(self):
        return log_norm(MLP((self.width,) * self.depth, "relu"))

    def theory(self) -> Prediction:
        law = self.law()
        where, spread = np.array(self.places), np.sqrt(law.variance)
        # An entry of the Jacobian multiplies by a chi-square: an average over its Gaussian logarithm.
        nodes, weights = np.polynomial.hermite_e.hermegauss(60)
        lengths = np.exp(law.mean + spread * nodes)
        entry = [weights @ chi2.cdf(np.exp(t) / lengths, 1) / weights.sum() for t in where]
        return {
            "mean": np.asarray(law.mean),
            "variance": np.asarray(law.variance),
            "leading": np.array([law.limit.mean_log, law.limit.variance_log]),
            "share": ndtr((where - law.mean) / spread),
            "entry": np.array(entry),
        }

    def measure(self, key) -> Measurement:
        rng = random_generator(key)
        logs = np.zeros(self.draws)
        for _ in range(self.depth):
            z = rng.standard_normal((self.draws, self.width))
            logs += np.log(2 * np.mean(np.maximum(z, 0) ** 2, axis=1))
        entry = logs + np.log(rng.standard_normal(self.draws) ** 2)
        places = np.array(self.places)
        mean, spread = sample_mean(logs), variance(logs)
        return {
            "mean": mean,
            "variance": spread,
            "leading": Estimate.of(
                np.array([mean.value, spread.value]), np.array([mean.sem, spread.sem]), mean.dof
            ),
            "share": sample_mean((logs[:, None] < places).astype(float)),
            "entry": sample_mean((entry[:, None] < places).astype(float)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # Skewness is left out of a Gaussian logarithm, and orders beyond 1/n of its mean and variance.
        return [
            z_score("mean of the logarithm", predicted["mean"], measured["mean"]),
            z_score("variance of the logarithm", predicted["variance"], measured["variance"]),
            absolute_error(
                "leading order", predicted["leading"], measured["leading"], 5 * self.depth / self.width**2 * 4
            ),
            absolute_error("share of lengths below", predicted["share"], measured["share"], 0.02),
            absolute_error("share of entries below", predicted["entry"], measured["entry"], 0.02),
        ]


def _no_drift(setting: LogNorms, value: np.ndarray) -> np.ndarray:
    return np.asarray(0.0)


def _without_chi_square(setting: LogNorms, value: np.ndarray) -> np.ndarray:
    law = setting.law()
    return ndtr((np.array(setting.places) - law.mean) / np.sqrt(law.variance))


_NAMES = Curves(lambda setting: layer_names(setting.hidden), "hidden widths")

CLAIMS = (
    Claim(
        id="relu-jacobian-second-moment",
        title="E J^2 = 2/n_0 at every depth and width",
        statement="""The derivative of an output by an input of a critical ReLU network without biases has
        second moment 2/n_0 at every width and depth, at every input but zero; there all gates are on and it
        is 2^(L+1)/n_0 with L hidden layers.""",
        source=_SOURCE + "second moment of the Jacobian",
        quick=SecondMoment(((8,), (12, 15, 10), (15,) * 6), draws=8000),
        full=SecondMoment(((8,), (12, 15, 10), (20,) * 6, (50,) * 10), draws=100_000),
        compare=compare_each({"second": "n_0 E J^2 / 2", "at zero": "n_0 E J^2 / 2 at x = 0"}),
        figure=_NAMES,
        wrong={"second": _squared_gates},
    ),
    Claim(
        id="relu-jacobian-fourth-moment",
        title="E J^4 at every depth and width",
        statement="""The derivative of an output by an input of a critical ReLU network without biases has
        fourth moment (12/n_0^2) prod (1 + 5/n_l) over the hidden layers, for Gaussian weights. The squared
        length of a column with n_out outputs has E|J e_p|^4 / (E|J e_p|^2)^2 = (1 + 2/n_out) prod (1 +
        5/n_l). Other symmetric weights change it through their fourth moment.""",
        source=_SOURCE + "'const exp(5 sum 1/n)' made exact, with the recursion for any fourth moment",
        quick=FourthMoment(((8,), (20, 30, 25)), draws=15_000),
        full=FourthMoment(((8,), (20, 30, 25), (30,) * 6, (10,) * 4), draws=200_000),
        compare=compare_each(
            {
                "entry": "E J^4 / (E J^2)^2",
                "column": "columns of several outputs",
                "uniform": "uniform weights",
            }
        ),
        figure=_NAMES,
        wrong={
            "entry": (_exponential, _pairs_of_equal_neurons),
            "column": _no_outputs,
            "uniform": _gaussian_weights,
        },
    ),
    Claim(
        id="relu-jacobian-lognormal",
        title="lengths are log-normal, entries with a chi-square",
        statement="""In critical ReLU networks log(|h_L|^2 n_0 / (n_L |x|^2)) is nearly Gaussian, with mean
        sum E[psi(B/2) + log(4/n)] and the matching variance for B ~ Bin(n, 1/2) not zero; to leading order
        -beta/2 and beta = 5 sum 1/n. A squared entry of the Jacobian is (2/n_0) times a chi-square of one
        degree of freedom times such a number.""",
        source=_SOURCE + "log-normal law; with the factor 2/n_0 and the chi-square",
        quick=LogNorms(width=100, depth=20, draws=4000),
        full=LogNorms(width=100, depth=20, draws=100_000),
        figure=Curves("places", "logarithm"),
        wrong={"mean": _no_drift, "entry": _without_chi_square},
    ),
)
