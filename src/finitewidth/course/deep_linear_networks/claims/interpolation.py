"""Deep linear networks conditioned on labels: evidence, posterior and predictions."""

from dataclasses import dataclass

import jax
import numpy as np
from scipy.special import ndtr

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.course._instruments.linear_networks import network_weights, random_generator, upper_rows
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import relative_error, z_score
from finitewidth.course._lab.estimate import Estimate, jackknife, sample_mean
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import shifted
from finitewidth.prediction.methods.bayesian.deep_linear.interpolation import LinearInterpolation, interpolate

_SOURCE = orf_543("12/7") + ", "


@dataclass(frozen=True)
class Labels(RandomProblem):
    """Random orthonormal inputs with labels of a given length, and the networks that fit them.

    Networks are accepted if all their outputs are within `window` of the labels.
    """

    n_in: int
    points: int
    hidden: tuple[int, ...]
    C_W: float
    draws: int
    square: float = 1.5
    window: float = 0.15
    # Networks that are drawn until some of them fit, in units of `draws`: few do.
    tries: int = 4

    @property
    def data(self) -> tuple[np.ndarray, np.ndarray]:
        rng = self.rng()
        x = np.linalg.qr(rng.normal(size=(self.n_in, self.points)))[0].T
        y = rng.normal(size=self.points)
        return x, y * np.sqrt(self.square / (y @ y))

    @property
    def test(self) -> np.ndarray:
        return self.rng(1).normal(size=(1, self.n_in))

    def network(self, C_W: float | None = None, hidden: tuple[int, ...] | None = None) -> Layer:
        return MLP(self.hidden if hidden is None else hidden, "linear", 0.0, self.C_W if C_W is None else C_W)

    def law(self) -> LinearInterpolation:
        return interpolate(self.network(), *self.data)

    def accepted(self, key) -> tuple[np.ndarray, np.ndarray]:
        """Weights of random networks, and which of them fit."""
        x, y = self.data
        theta = network_weights(self.n_in, self.hidden, self.C_W, key, self.tries * self.draws)
        return theta, np.all(np.abs(theta @ x.T - y) < self.window, axis=1)

    def weighted(self, key) -> tuple[np.ndarray, np.ndarray]:
        """Networks whose first matrix is drawn to fit the labels, and the labels' density under the rest.

        Given the other matrices the first one is Gaussian, and so is theta: a draw of it is moved along the
        inputs until it fits.
        """
        x, y = self.data
        upper_key, key = jax.random.split(key)
        row = upper_rows(self.hidden, self.C_W, upper_key, self.draws)
        own = np.sum(row**2, axis=1) * self.C_W / self.n_in
        density = (2 * np.pi * own) ** (-self.points / 2) * np.exp(-self.square / (2 * own))
        theta = np.sqrt(own)[:, None] * random_generator(key).standard_normal((self.draws, self.n_in))
        return theta + (y - theta @ x.T) @ x, density

    def averages(self, values: np.ndarray, weights: np.ndarray) -> Estimate:
        """Weighted means along the first axis."""
        moments = np.concatenate([weights[:, None], weights[:, None] * values], axis=1)
        return jackknife(moments, lambda mean: mean[1:] / mean[0])


@dataclass(frozen=True)
class Evidence(Labels):
    """The density of labels under random networks: by the share that fits, and by averaged Gaussians."""

    def theory(self) -> Prediction:
        density = np.asarray(np.exp(self.law().log_evidence))
        return {"averaged": density, "share": density}

    def measure(self, key) -> Measurement:
        share_key, key = jax.random.split(key)
        _, fits = self.accepted(share_key)
        return {
            "averaged": sample_mean(self.weighted(key)[1]),
            "share": sample_mean(fits / (2 * self.window) ** self.points),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # A window of finite size averages over labels: an error of its square.
        return [
            z_score("density of the labels", predicted["averaged"], measured["averaged"]),
            relative_error(
                "share of networks that fit", predicted["share"], measured["share"], 3 * self.window**2
            ),
        ]


def _one_layers_variance(setting: Labels, value: np.ndarray) -> np.ndarray:
    """C_W in the place of its product over all layers."""
    once = setting.C_W ** (1 / (len(setting.hidden) + 1))
    return np.asarray(np.exp(interpolate(setting.network(once), *setting.data).log_evidence))


def _inputs_among_the_factors(setting: Labels, value: np.ndarray) -> np.ndarray:
    layers = len(setting.hidden) + 1
    net = setting.network(setting.C_W ** (layers / (layers + 1)), (setting.n_in, *setting.hidden))
    return np.asarray(np.exp(interpolate(net, *setting.data).log_evidence))


@dataclass(frozen=True)
class Across(Labels):
    """The squared length of theta across the data, of networks that fit."""

    def theory(self) -> Prediction:
        square = np.asarray(self.law().perpendicular_square)
        return {"accepted": square, "weighted": square}

    def measure(self, key) -> Measurement:
        x, _ = self.data
        accepted_key, key = jax.random.split(key)
        theta, fits = self.accepted(accepted_key)
        across = lambda weights: np.sum((weights - weights @ x.T @ x) ** 2, axis=1)
        weighted, density = self.weighted(key)
        return {
            "accepted": sample_mean(across(theta[fits])),
            "weighted": self.averages(across(weighted)[:, None], density)[0],
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [
            z_score("weighted networks", predicted["weighted"], measured["weighted"]),
            relative_error(
                "networks that fit", predicted["accepted"], measured["accepted"], 3 * self.window**2
            ),
        ]


def _prior_radius(setting: Labels, value: np.ndarray) -> np.ndarray:
    across = setting.n_in - setting.points
    return np.asarray(across * setting.C_W ** (len(setting.hidden) + 1) / setting.n_in)


@dataclass(frozen=True)
class Predictions(Labels):
    """Outputs at a test point, of networks that fit.

    How often they are below the mean by multiples of the spread that they would have at s = 1.
    """

    multiples: tuple[float, ...] = (-3.0, -1.0, -0.4, 0.4, 1.0, 3.0)

    @property
    def places(self) -> np.ndarray:
        x, y = self.data
        test = self.test[0]
        across = np.linalg.norm(test - test @ x.T @ x) * np.sqrt(
            self.C_W ** (len(self.hidden) + 1) / self.n_in
        )
        return y @ x @ test + np.array(self.multiples) * across

    def theory(self) -> Prediction:
        law, test = self.law(), self.test
        return {
            "mean": law.mean(test),
            "variance": law.std(test) ** 2,
            "share": law.cdf(np.repeat(test, len(self.multiples), axis=0), self.places),
        }

    def measure(self, key) -> Measurement:
        theta, density = self.weighted(key)
        output = theta @ self.test[0]
        moments = np.stack([density, density * output, density * output**2], axis=1)
        below = output[:, None] < self.places
        return {
            "mean": self.averages(output[:, None], density),
            "variance": jackknife(moments, lambda m: np.array([m[2] / m[0] - (m[1] / m[0]) ** 2])),
            "share": self.averages(below, density),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        texts = {
            "mean": "mean output",
            "variance": "variance of the output",
            "share": "share of outputs below",
        }
        return [z_score(text, predicted[name], measured[name]) for name, text in texts.items()]


def _gaussian(setting: Predictions, value: np.ndarray) -> np.ndarray:
    """A Gaussian of the same variance."""
    return ndtr(np.array(setting.multiples) / np.sqrt(setting.law().scale_moment(1)))


def _prior_variance(setting: Predictions, value: np.ndarray) -> np.ndarray:
    law, test = setting.law(), setting.test
    return law.std(test) ** 2 / law.scale_moment(1)


_TINY = {"n_in": 4, "points": 2, "hidden": (3, 5), "C_W": 1.21}

CLAIMS = (
    Claim(
        id="bayes-evidence",
        title="the evidence of a deep linear network",
        statement="""The density of P <= n_0 labels under a random deep linear network is det(X X^T)^(-1/2)
        (2 pi S/n_0)^(-P/2) E[s^(-P/2) e^(-c/s)], with S the product of C_W over all layers, s the product of
        chi2_n/n over the hidden ones and c = n_0 |theta_*|^2 / 2S from the interpolant of least length.""",
        source=_SOURCE + "Meijer G; S has one factor per layer, s none for the inputs",
        quick=Evidence(**_TINY, draws=300_000),
        full=Evidence(**_TINY, draws=3_000_000, window=0.1, tries=2),
        wrong={"averaged": (_one_layers_variance, _inputs_among_the_factors)},
    ),
    Claim(
        id="bayes-posterior-perpendicular",
        title="networks that fit differ across the data only",
        statement="""Deep linear networks that fit P labels are the interpolant of least length plus a
        uniformly random direction across the data. Its mean squared length is (n_0 - P) (S/n_0) E[s | y],
        where the labels multiply the prior of s by s^(-P/2) e^(-c/s).""",
        source=_SOURCE + "posterior of the weights",
        quick=Across(**_TINY, draws=300_000),
        full=Across(**_TINY, draws=3_000_000, window=0.1, tries=2),
        wrong={"weighted": _prior_radius, "accepted": _prior_radius},
    ),
    Claim(
        id="bayes-predictive",
        title="predictions are Gaussian scale mixtures",
        statement="""The output at x of deep linear networks that fit the labels has mean theta_* . x and
        variance |x_perp|^2 (S/n_0) E[s | y]. Given s it is Gaussian; it is nearly so when the posterior of s
        is narrow, and not because n_0 - P is large.""",
        source=_SOURCE + "predictive distribution; near Gaussian for another reason",
        quick=Predictions(n_in=30, points=3, hidden=(6, 6, 6), C_W=1.1, draws=150_000, square=0.15),
        full=Predictions(n_in=30, points=3, hidden=(6, 6, 6), C_W=1.1, draws=1_500_000, square=0.15),
        figure=Curves("multiples", "distance from the mean, in spreads at s = 1"),
        wrong={"share": _gaussian, "variance": _prior_variance, "mean": shifted(0.1)},
    ),
)
