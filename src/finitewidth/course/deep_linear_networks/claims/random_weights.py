"""Random deep linear networks: the length of their weights, and the spectrum of random inputs."""

from dataclasses import dataclass

import jax
import numpy as np

from finitewidth.architecture.mlp import MLP
from finitewidth.course._instruments.linear_networks import log_norms, network_weights
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, compare_each, relative_error, z_score
from finitewidth.course._lab.estimate import exact, sample_mean, stacked, variance
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.deep_linear_networks.theory.marchenko_pastur import MarchenkoPastur
from finitewidth.statistics.exact.deep_linear import weight_norm

_SOURCE = orf_543("12/7")


@dataclass(frozen=True)
class Inputs:
    """Points with independent standard features."""

    points: int
    features: int

    @property
    def places(self) -> np.ndarray:
        """Where the share of eigenvalues below is taken."""
        return np.linspace(0.05, 3.0, 60)

    def theory(self) -> Prediction:
        return {"share": MarchenkoPastur(self.points / self.features).cdf(self.places)}

    def measure(self, key) -> Measurement:
        x = np.asarray(jax.random.normal(key, (self.points, self.features)))
        found = np.linalg.eigvalsh(x @ x.T / self.features)
        return {"share": exact(np.searchsorted(found, self.places, side="right") / self.points)}


def _other_density(setting: Inputs, value: np.ndarray) -> np.ndarray:
    """2 pi 2x in the denominator, in place of 2 pi a x."""
    return value * setting.points / setting.features / 2


def _features_per_point(setting: Inputs, value: np.ndarray) -> np.ndarray:
    return MarchenkoPastur(setting.features / setting.points).cdf(setting.places)


@dataclass(frozen=True)
class Norms:
    """Linear networks with C_W = 1, their weights by multiplying matrices."""

    n_in: int
    hidden: tuple[int, ...]
    draws: int

    def theory(self) -> Prediction:
        law = weight_norm(MLP(self.hidden, "linear", 0.0, 1.0), self.n_in)
        return {
            "mean log": np.asarray(law.mean_log),
            "variance log": np.asarray(law.variance_log),
            "fourth": np.asarray(law.moment(4)),
            # Of a uniformly random direction.
            "direction": np.asarray(3 / (self.n_in * (self.n_in + 2))),
            "with direction": np.asarray(law.moment(2) * 3 / (self.n_in * (self.n_in + 2))),
        }

    def measure(self, key) -> Measurement:
        theta = network_weights(self.n_in, self.hidden, 1.0, key, self.draws)
        square = np.sum(theta**2, axis=1)
        direction = theta[:, 0] ** 4 / square**2
        return {
            "mean log": sample_mean(np.log(square) / 2),
            "variance log": variance(np.log(square) / 2),
            "fourth": sample_mean(square**2),
            "direction": sample_mean(direction),
            "with direction": sample_mean(direction * square),
        }


def _without_inputs(setting: Norms, value: np.ndarray) -> np.ndarray:
    """The factor of the inputs left out."""
    return np.asarray(value / (1 + 2 / setting.n_in))


@dataclass(frozen=True)
class Limits:
    """Networks whose inputs are as many as the neurons of a layer, in three corners of depth and width."""

    shapes: tuple[tuple[int, int], ...]
    draws: int
    wide_for_depth: tuple[int, int] = (6, 30)

    def laws(self):
        return [weight_norm(MLP((n,) * depth, "linear", 0.0, 1.0), n) for depth, n in self.shapes]

    def theory(self) -> Prediction:
        laws, (depth, n) = self.laws(), self.wide_for_depth
        return {
            "mean log": np.array([law.mean_log for law in laws]),
            "variance log": np.array([law.variance_log for law in laws]),
            "limit mean": np.array([law.log_normal().mean_log for law in laws]),
            "limit variance": np.array([law.log_normal().variance_log for law in laws]),
            "square": np.asarray(weight_norm(MLP((n,) * depth, "linear", 0.0, 1.0), n).moment(2)),
        }

    def measure(self, key) -> Measurement:
        *keys, last = jax.random.split(key, len(self.shapes) + 1)
        logs = [
            log_norms(n, (n,) * depth, k, self.draws) for (depth, n), k in zip(self.shapes, keys, strict=True)
        ]
        depth, n = self.wide_for_depth
        means, variances = (stacked([of(log) for log in logs]) for of in (sample_mean, variance))
        return {
            "mean log": means,
            "variance log": variances,
            "limit mean": means,
            "limit variance": variances,
            "square": sample_mean(np.exp(2 * log_norms(n, (n,) * depth, last, 4 * self.draws))),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # The first orders leave out 1/(3n) of the mean and 1/n of the variance.
        allowed = 2 / np.array([n for _, n in self.shapes])
        return [
            z_score("mean of log|theta|", predicted["mean log"], measured["mean log"]),
            z_score("variance of log|theta|", predicted["variance log"], measured["variance log"]),
            relative_error("mean in the limit", predicted["limit mean"], measured["limit mean"], allowed),
            relative_error(
                "variance in the limit", predicted["limit variance"], measured["limit variance"], allowed
            ),
            z_score("mean of |theta|^2", predicted["square"], measured["square"]),
        ]


def _vanishing(setting: Limits, value: np.ndarray) -> np.ndarray:
    """The mean square taken for the square of the typical length."""
    depth, n = setting.wide_for_depth
    return np.asarray(np.exp(-(depth + 1) / n))


def _names(setting: Limits) -> list[str]:
    return [f"{depth} layers of {n}" for depth, n in setting.shapes]


CLAIMS = (
    Claim(
        id="marchenko-pastur",
        title="eigenvalues of a random Gram matrix",
        statement="""The eigenvalues of X X^T / n_0, with X of P rows and n_0 columns of independent standard
        Gaussians, have in the limit of large sizes at fixed a = P/n_0 < 1 the density sqrt((l_+ - x)(x -
        l_-)) / (2 pi a x) between the edges (1 -+ sqrt a)^2.""",
        source=_SOURCE + ", example 1; the denominator is 2 pi a x",
        quick=Inputs(300, 1000),
        full=Inputs(1200, 4000),
        compare=compare_each({"share": "share of eigenvalues"}, absolute_error, lambda s, p: 6 / s.points),
        figure=Curves("places", "eigenvalue"),
        wrong={"share": (_other_density, _features_per_point)},
    ),
    Claim(
        id="deep-linear-norm-law",
        title="the length of a linear network is a product of chi-squares",
        statement="""The weights theta of a random deep linear network with one output and weights of
        variance 1/fan-in have a uniformly random direction, and independently of it |theta|^2 = prod chi2_n
        / n over the inputs and all hidden layers. So E|theta|^4 = prod (1 + 2/n), and log|theta| has mean
        sum [psi(n/2) - log(n/2)]/2 and variance sum psi'(n/2)/4.""",
        source=_SOURCE + "; the input layer counts, and chi2_n/n has variance 2/n",
        quick=Norms(20, (20, 30, 25), draws=15_000),
        full=Norms(20, (20, 30, 25), draws=300_000),
        compare=compare_each(
            {
                "mean log": "mean of log|theta|",
                "variance log": "variance of log|theta|",
                "fourth": "E|theta|^4",
                "direction": "fourth moment of the direction",
                "with direction": "direction and length together",
            }
        ),
        wrong={"fourth": _without_inputs, "variance log": scaled(0.5), "mean log": scaled(0.5)},
    ),
    Claim(
        id="non-commuting-limits",
        title="wide and deep limits do not commute",
        statement="""As a linear network gets wide |theta| tends to 1; as it gets deep it tends to 0; with
        depth/width = g fixed log|theta| tends to a Gaussian of mean -g/2 and variance g/2. The mean of
        |theta|^2 is 1 in every case.""",
        source=_SOURCE + "; mean and variance twice the printed ones",
        quick=Limits(((10, 1000), (500, 20), (100, 100)), draws=2000),
        full=Limits(((10, 10_000), (10_000, 20), (100, 100), (300, 300)), draws=10_000),
        figure=Curves(_names, "hidden layers"),
        wrong={"limit mean": scaled(0.5), "limit variance": scaled(0.5), "square": _vanishing},
    ),
)
