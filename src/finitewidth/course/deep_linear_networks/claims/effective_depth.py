"""Where the posterior of large deep linear networks concentrates, and the prior that suits the data."""

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from finitewidth.course._instruments.linear_networks import conditioned_scale
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import relative_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import orf_543
from finitewidth.prediction.methods.bayesian.deep_linear.effective_depth import (
    effective_depth,
    limiting_prior_variance,
    posterior_scale,
    posterior_scale_of_depth,
)

_SOURCE = orf_543("12/7") + ", "


@dataclass(frozen=True)
class Depths(RandomProblem):
    """Networks of several depths with labels whose interpolant has a random length."""

    width: int
    points: int
    depths: tuple[int, ...]
    unequal: tuple[int, ...] = (60, 200, 500)

    @property
    def nu(self) -> float:
        return float(np.exp(self.rng().uniform(0.4, 1.2)))

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [(self.width,) * depth for depth in self.depths]

    def theory(self) -> Prediction:
        deep = self.shapes[-1]
        return {
            "scale": np.array([posterior_scale(self.nu, self.points, hidden) for hidden in self.shapes]),
            "unequal": np.asarray(posterior_scale(self.nu, self.points, self.unequal)),
            "deep": np.asarray(posterior_scale_of_depth(self.nu, effective_depth(self.points, deep))),
        }

    def measure(self, key) -> Measurement:
        c = self.points * self.nu / 2
        scales = [conditioned_scale(hidden, self.points, c).mean for hidden in (*self.shapes, self.unequal)]
        return {
            "scale": exact(np.array(scales[:-1])),
            "unequal": exact(scales[-1]),
            "deep": exact(scales[-2]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # The log form leaves out (log s)^2 / 2L in the exponent of s.
        beyond = np.log(self.nu) ** 2 / self.depths[-1]
        return [
            relative_error("posterior mean of s", predicted["scale"], measured["scale"], 3 / self.points),
            relative_error("unequal widths", predicted["unequal"], measured["unequal"], 3 / self.points),
            relative_error(
                "deep networks, effective depth alone",
                predicted["deep"],
                measured["deep"],
                3 / self.points + beyond,
            ),
        ]


def _no_features(setting: Depths, value: np.ndarray) -> np.ndarray:
    return np.ones_like(value)


def _depth_over_width(setting: Depths, value: np.ndarray) -> np.ndarray:
    """The sum of 1/n without the number of points."""
    return np.array(
        [
            posterior_scale_of_depth(setting.nu, sum(1 / n for n in hidden))
            for hidden in (setting.shapes if value.ndim else setting.shapes[-1:])
        ]
    ).reshape(value.shape)


@dataclass(frozen=True)
class BestPrior(RandomProblem):
    """Networks of several shapes, the labels' interpolant of a random length."""

    features: int
    points: int
    shapes: tuple[tuple[int, ...], ...]

    @property
    def square(self) -> float:
        return float(np.exp(self.rng().uniform(-1, 1)))

    def theory(self) -> Prediction:
        best = [limiting_prior_variance(self.square, self.points, self.features, h) for h in self.shapes]
        whole = self.square * self.features / self.points
        return {
            "prior variance": np.array(best),
            "length at the best": np.full(len(best), whole),
            "infinitely deep": np.asarray((1 - self.points / self.features) * whole),
        }

    def measure(self, key) -> Measurement:
        c = self.features * self.square / 2
        across = 1 - self.points / self.features
        best, length = [], []
        for hidden in self.shapes:
            loss = lambda log_S, h=hidden: (
                self.points / 2 * log_S - conditioned_scale(h, self.points, c * np.exp(-log_S)).log_average
            )
            middle = np.log(2 * c / self.points)
            found = minimize_scalar(loss, bounds=(middle - 3, middle + 4), method="bounded")
            S = float(np.exp(found.x))
            best.append(S)
            length.append(self.square + across * S * conditioned_scale(hidden, self.points, c / S).mean)
        deep = conditioned_scale((self.points // 2,) * 200, self.points, c).mean
        return {
            "prior variance": exact(np.array(best)),
            "length at the best": exact(np.array(length)),
            "infinitely deep": exact(across * deep),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        # At an effective depth of 400 the logarithm of what is left over 400 remains.
        left = 2 * abs(np.log(self.square * self.features / self.points)) / 400
        allowed = 3 / self.points
        return [
            relative_error(
                "S of largest evidence", predicted["prior variance"], measured["prior variance"], 2 * allowed
            ),
            relative_error(
                "|theta|^2 there", predicted["length at the best"], measured["length at the best"], allowed
            ),
            relative_error(
                "|theta_perp|^2 of deep networks, S = 1",
                predicted["infinitely deep"],
                measured["infinitely deep"],
                allowed + left,
            ),
        ]


def _without_the_ratio(setting: BestPrior, value: np.ndarray) -> np.ndarray:
    """|theta_*|^2, without n_0/P."""
    return value * setting.points / setting.features


def _same_for_all(setting: BestPrior, value: np.ndarray) -> np.ndarray:
    """Without the skewness of the prior of s."""
    return np.full_like(value, setting.square * setting.features / setting.points)


def _whole_length(setting: BestPrior, value: np.ndarray) -> np.ndarray:
    """All of |theta|^2 taken for its part across the data."""
    return np.asarray(value / (1 - setting.points / setting.features))


CLAIMS = (
    Claim(
        id="bayes-effective-depth",
        title="points times depth over width decide the posterior",
        statement="""In large deep linear networks with nu = |theta_*|^2 n_0/(P S) the posterior of s
        concentrates where prod (1 + mu/n_l) = s and 1 - nu/s + mu/P = 0, up to order 1/P. With many layers
        only the effective depth P sum 1/n_l is left: s goes from 1, its value without learning, to nu.""",
        source=_SOURCE + "effective depth; the finite number of layers kept",
        quick=Depths(width=400, points=200, depths=(1, 4, 20, 100)),
        full=Depths(width=400, points=200, depths=(1, 2, 4, 10, 20, 50, 100, 200)),
        figure=Curves("depths", "hidden layers"),
        wrong={
            "scale": (_no_features, _depth_over_width),
            "unequal": _no_features,
            "deep": _depth_over_width,
        },
    ),
    Claim(
        id="bayes-optimal-prior",
        title="the best prior variance, and deep networks that need none",
        statement="""The prior variance S of largest evidence tends to |theta_*|^2 n_0/P over the mode of
        the product of chi-squares s = prod chi^2(n_l)/n_l, on a logarithmic scale: e^(-(L-1)/n) for L hidden
        layers of width n, up to L/n^2 in the exponent. At this S, |theta|^2 is |theta_*|^2 n_0/P for every
        shape. Networks of infinite effective depth have this posterior whatever S is, with |theta_perp|^2 =
        (1 - P/n_0) |theta_*|^2 n_0/P.""",
        source=_SOURCE + "optimal prior; with the mode of the prior of s, and 1 - P/n_0 across the data",
        quick=BestPrior(features=400, points=200, shapes=((400,) * 4, (100,) * 50, (50, 400, 20))),
        full=BestPrior(
            features=1000, points=500, shapes=((1000,) * 4, (100,) * 100, (50, 400, 20), (30,), (30,) * 30)
        ),
        figure=Curves(lambda setting: [f"{len(h)} from {h[0]}" for h in setting.shapes], "hidden layers"),
        wrong={
            "prior variance": (_without_the_ratio, _same_for_all),
            "length at the best": _without_the_ratio,
            "infinitely deep": _whole_length,
        },
    ),
)
