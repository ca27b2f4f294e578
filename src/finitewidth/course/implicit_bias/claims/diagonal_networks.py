"""Diagonal networks: the flow in closed form, the penalty it implies, small and large starts."""

import functools
from dataclasses import dataclass

import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.shapes.orders import leading_power
from finitewidth.course._lab.sources import orf_543
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.implicit_bias.networks import interpolation
from finitewidth.course.implicit_bias.networks.diagonal_networks import diagonal_flow
from finitewidth.course.implicit_bias.networks.interpolation import Equations
from finitewidth.course.implicit_bias.theory.diagonal import DiagonalNetwork, least_sum
from finitewidth.course.implicit_bias.theory.interpolators import convex_limit

_SOURCE = orf_543("11/9")
# Accuracy of weights that an integration leaves, and the one to which convex solutions are held.
_FLOW, _CONVEX = 1e-7, 1e-6


@dataclass(frozen=True)
class Diagonal(RandomProblem):
    """Fewer equations than features."""

    points: int = 4
    features: int = 9

    @property
    def equations(self) -> Equations:
        """Gaussian features and labels."""
        return interpolation.draw(self.rng(0), self.points, self.features)


@dataclass(frozen=True)
class Path(Diagonal):
    """Moments of the flow, in units of the fastest mode at the start."""

    alpha: float = 0.3
    moments: tuple[float, ...] = (0.3, 1.0, 3.0, 10.0, 100.0)

    @property
    def times(self) -> np.ndarray:
        x, _, theta0 = self.equations
        speed = 8 * self.alpha**2 * np.linalg.norm(x * theta0, 2) ** 2
        return np.array(self.moments) / speed

    def theory(self) -> Prediction:
        x, y, theta0 = self.equations
        network = DiagonalNetwork(self.alpha, theta0)
        beta = network.trajectory(x, y, self.times)
        product = np.broadcast_to(self.alpha**2 * theta0**2, beta.shape)
        return {"beta": beta, "product": product}

    def measure(self, key) -> Measurement:
        plus, minus = interpolation.diagonal_path(self.equations, self.alpha, self.times)
        return {"beta": exact(plus**2 - minus**2), "product": exact(plus * minus)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        size = np.abs(predicted["beta"]).max()
        return [
            absolute_error("weights along the flow", predicted["beta"], measured["beta"], _FLOW * size),
            relative_error("products of both layers", predicted["product"], measured["product"], _FLOW),
        ]


def _half_the_exponent(setting: Path, value: np.ndarray) -> np.ndarray:
    """2 instead of 4 in the exponent."""
    scale = 2 * setting.alpha**2 * setting.equations.theta0**2
    return scale * np.sinh(np.arcsinh(value / scale) / 2)


@dataclass(frozen=True)
class Ends(Diagonal):
    """Where the flow ends from starts of very different scale."""

    alphas: tuple[float, ...] = (1e-5, 1e-4, 1e-3, 1e-2, 0.1, 1.0, 10.0)

    def theory(self) -> Prediction:
        x, y, theta0 = self.equations
        networks = [DiagonalNetwork(alpha, theta0) for alpha in self.alphas]
        # Beyond, weights are too small for the scale of the potential.
        cones = [convex_limit(network.potential, x, y).weights for network in networks if network.alpha < 2]
        return {"newton": np.array([n.limit(x, y).weights for n in networks]), "cones": np.array(cones)}

    def measure(self, key) -> Measurement:
        x, y, theta0 = self.equations
        found = diagonal_flow(x, y, np.array(self.alphas)[:, None] * theta0)
        return {"beta": exact(np.asarray(found.beta))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        beta, size = measured["beta"].value, np.abs(predicted["newton"]).max()
        newton, cones = predicted["newton"], predicted["cones"]
        return [
            absolute_error("end of the flow, Newton on the dual", newton, beta, _CONVEX * size),
            absolute_error("end of the flow, cones", cones, beta[: len(cones)], _CONVEX * size),
        ]


def _shortest(setting: Ends, value: np.ndarray) -> np.ndarray:
    """The interpolator of least norm from every start."""
    x, y, _ = setting.equations
    return np.broadcast_to(np.linalg.lstsq(x, y, rcond=None)[0], value.shape)


@dataclass(frozen=True)
class SmallStart(Diagonal):
    """A start so small that what unused features take from the used ones is about `left` of the smallest."""

    slack: float = 0.1
    left: float = 1e-3

    @functools.cached_property
    def sparse(self) -> Equations:
        """Equations whose sparse interpolator is unique, by more than the slack."""
        return interpolation.draw_with_slack(self.rng(0), self.points, self.features, self.slack)

    @property
    def alpha(self) -> float:
        """Where theta_0i^2 alpha^(2 - 2 c_i) exp(x_i.delta), in units of used features, is left min|b|."""
        x, _, theta0 = self.sparse
        b, slopes = interpolation.sparse_interpolator(self.sparse)
        used = b != 0
        delta = np.linalg.solve(x[:, used].T, np.sign(b[used]) * np.log(np.abs(b[used]) / theta0[used] ** 2))
        taken = np.abs(np.linalg.solve(x[:, used], x[:, ~used])).max(axis=0) * theta0[~used] ** 2
        reach = np.log(taken / (self.left * np.abs(b[used]).min())) + np.sign(slopes[~used]) * (
            delta @ x[:, ~used]
        )
        return float(np.exp(-np.max(reach / (1 - np.abs(slopes[~used]))) / 2))

    def theory(self) -> Prediction:
        x, y, theta0 = self.sparse
        network, found = DiagonalNetwork(self.alpha, theta0), least_sum(x, y)
        law, used = network.small_scale_law(x, y), found.active
        b = np.abs(found.weights[used])
        correction = float(b @ (np.log(b / theta0[used] ** 2) - 1))
        # What unused features carry is taken from the used ones.
        shift = np.linalg.solve(x[:, used], x[:, ~used] @ law[~used])
        return {
            "unused": network.potential.slopes(law)[~used],
            "used": found.weights[used],
            "shift": shift,
            "penalty": np.array(b.sum() * np.log(1 / self.alpha**2) + correction),
        }

    def measure(self, key) -> Measurement:
        (plus,), (minus,) = interpolation.diagonal_path(self.sparse, self.alpha)
        weights, _ = interpolation.sparse_interpolator(self.sparse)
        used = weights != 0
        penalty = interpolation.implied_penalty(weights, self.alpha, self.sparse.theta0)
        found = (plus**2 - minus**2)[used]
        return {
            "unused": exact(np.log(plus / minus)[~used]),
            "used": exact(found),
            "shift": exact(weights[used] - found),
            "penalty": exact(penalty),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        shift, smallest = np.abs(measured["shift"].value).max(), np.abs(predicted["used"]).min()
        used = "used features"
        taken = "what unused features take from used ones"
        return [
            absolute_error("logarithm of unused features", predicted["unused"], measured["unused"], 0.02),
            absolute_error(used, predicted["used"], measured["used"], 1.1 * shift + _CONVEX * smallest),
            absolute_error(taken, predicted["shift"], measured["shift"], 0.05 * shift + _CONVEX * smallest),
            relative_error(
                "penalty of the sparse weights", predicted["penalty"], measured["penalty"], _CONVEX
            ),
        ]


def _decay_of_the_start(setting: SmallStart, value: np.ndarray) -> np.ndarray:
    """alpha^2 for every unused feature, whatever its slope."""
    return np.sign(value)


def _sum_of_sizes(setting: SmallStart, value: np.ndarray) -> np.ndarray:
    """The penalty itself taken for the sum of sizes."""
    return np.asarray(np.abs(interpolation.sparse_interpolator(setting.sparse)[0]).sum())


@dataclass(frozen=True)
class LargeStart(Diagonal):
    """Starts with alpha^2 a multiple of the largest |beta_i| / theta0_i^2 of the weighted interpolator."""

    multiples: tuple[float, ...] = (10.0, 20.0, 40.0, 80.0)

    @property
    def alphas(self) -> np.ndarray:
        x, y, theta0 = self.equations
        weighted = theta0 * np.linalg.lstsq(x * theta0, y, rcond=None)[0]
        return np.sqrt(np.array(self.multiples) * np.abs(weighted / theta0**2).max())

    def theory(self) -> Prediction:
        x, y, theta0 = self.equations
        limit = DiagonalNetwork(1.0, theta0).large_scale_limit(x, y).weights
        return {
            "limit": limit,
            "power": np.array(-4.0),
            "penalty": np.array(np.sum(limit**2 / theta0**2) / 4),
        }

    def measure(self, key) -> Measurement:
        paths = [interpolation.diagonal_path(self.equations, alpha) for alpha in self.alphas]
        beta = np.array([(plus**2 - minus**2)[0] for plus, minus in paths])
        last = self.alphas[-1]
        penalty = last**2 * interpolation.implied_penalty(beta[-1], last, self.equations.theta0)
        return {"beta": exact(beta), "penalty": exact(penalty)}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        distance = np.linalg.norm(measured["beta"].value - predicted["limit"], axis=1)
        power = -leading_power(1 / self.alphas**2, distance) * 2
        first = self.multiples[-1] ** -2.0
        return [
            absolute_error("power of alpha of the distance", predicted["power"], power, 0.02),
            absolute_error(
                "weights at the largest start", predicted["limit"], measured["beta"].value[-1],
                first * np.abs(predicted["limit"]).max(),
            ),
            relative_error("alpha^2 times the penalty", predicted["penalty"], measured["penalty"], first),
        ]  # fmt: skip


def _root_of_the_weights(setting: LargeStart, value: np.ndarray) -> np.ndarray:
    """theta0 in place of its square."""
    x, y, theta0 = setting.equations
    return np.sqrt(theta0) * np.linalg.lstsq(x * np.sqrt(theta0), y, rcond=None)[0]


CLAIMS = (
    Claim(
        id="diagonal-closed-form-flow",
        title="the flow of a diagonal network is a hyperbolic sine",
        statement="""For beta = theta_+^2 - theta_-^2 and the loss 1/2 |X beta - y|^2 gradient flow from
        theta_+ = theta_- = alpha theta_0 is beta(t) = 2 alpha^2 theta_0^2 sinh(-4 X^T times the integral
        of the residuals), and keeps every product theta_+ theta_-.""",
        source=f"{_SOURCE} (the factor 2 before sinh is lost on one line)",
        quick=Path(),
        full=Path(points=12, features=40, moments=tuple(np.geomspace(0.1, 300, 12))),
        figure=Curves("times", "time $t$", along=0),
        wrong={"beta": (_half_the_exponent, scaled(0.5)), "product": scaled(1.001)},
    ),
    Claim(
        id="diagonal-implicit-bias",
        title="a diagonal network ends at the interpolator with the least hyperbolic entropy",
        statement="""Gradient flow ends at the interpolator with the least Q = sum_i alpha^2 theta_0i^2
        q(beta_i / (alpha^2 theta_0i^2)), q(z) = 2 - sqrt(4 + z^2) + z asinh(z/2), over six decades of
        alpha; Newton's method on the dual and a solver for cones agree on it.""",
        source=_SOURCE,
        quick=Ends(),
        full=Ends(points=8, features=24, alphas=tuple(10.0 ** np.arange(-6, 1.5, 0.5))),
        figure=Curves("alphas", r"scale of the start $\alpha$", along=0),
        wrong={"newton": _shortest, "cones": scaled(1 + 1e-5)},
    ),
    Claim(
        id="diagonal-small-scale-limit",
        title="a small start selects few features",
        statement="""If the interpolator b with the least sum of sizes is unique, a small alpha leaves an
        unused feature sign(x_i.nu) theta_0i^2 alpha^(2 - 2|x_i.nu|) exp(sign(x_i.nu) x_i.delta), with the
        dual nu, and Q(b) is |b|_1 log(1/alpha^2) + sum_i |b_i| (log(|b_i| / theta_0i^2) - 1): only Q over the
        logarithm tends to the sum of sizes.""",
        source=f"{_SOURCE} (without the logarithm)",
        quick=SmallStart(),
        full=SmallStart(points=8, features=24, slack=0.05),
        wrong={"unused": _decay_of_the_start, "penalty": _sum_of_sizes, "used": scaled(1.01)},
    ),
    Claim(
        id="diagonal-large-scale-limit",
        title="a large start selects short weights, in a norm that the start shapes",
        statement="""For large alpha the interpolator has the least sum of beta_i^2 / theta_0i^2, alpha^2 Q
        tends to a quarter of it, and the distance falls like alpha^-4 once alpha^2 is ten times the
        largest |beta_i| / theta_0i^2.""",
        source=_SOURCE,
        quick=LargeStart(),
        full=LargeStart(points=10, features=30, multiples=(10.0, 20.0, 40.0, 80.0, 160.0)),
        wrong={"power": scaled(0.5), "limit": _root_of_the_weights, "penalty": scaled(2.0)},
    ),
)
