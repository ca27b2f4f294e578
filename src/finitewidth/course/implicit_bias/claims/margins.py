"""Separable classes: the hard margin, the way of gradient flow towards it, and models that go elsewhere."""

import functools
from dataclasses import dataclass

import numpy as np

from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error, relative_error, upper_bound
from finitewidth.course._lab.estimate import Estimate, exact
from finitewidth.course._lab.figures import Curves
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.course._lab.sources import IEMS_402, orf_543
from finitewidth.course._lab.wrong import power, scaled, shifted
from finitewidth.course.implicit_bias.networks import separable
from finitewidth.course.implicit_bias.networks.margin_training import separable_flow
from finitewidth.course.implicit_bias.networks.separable import Classes
from finitewidth.course.implicit_bias.theory.max_margin import max_margin
from finitewidth.course.implicit_bias.theory.sparse_margin import sparse_margin

_SOURCE = orf_543("11/14")
# e^-16 of the slowest mode is left at the horizon; what multiplies it, and the solver, have three
# digits of room.
_E_FOLDS, _LATE = 16.0, 1e-4
_EXACT, _CONVEX = 1e-9, 1e-6


@dataclass(frozen=True)
class Separable(RandomProblem):
    """Two classes with a hyperplane through the origin between them, and a bounded rate in log t."""

    points: int = 8
    features: int = 3
    least_rate: float = 0.05
    spanning: bool = True

    @functools.cached_property
    def classes(self) -> Classes:
        """Points and labels."""
        return separable.draw_with_rate(
            self.rng(0), self.points, self.features, self.least_rate, self.spanning
        )

    @property
    def horizon(self) -> float:
        """log t = 16 / min(1, lambda, gap) + log |w|^2."""
        found = separable.margin_by_enumeration(self.classes)
        return _E_FOLDS / found.rate(self.classes) + max(0.0, float(np.log(found.weights @ found.weights)))


@dataclass(frozen=True)
class Optimality(Separable):
    """The hard margin by three other routes."""

    least_rate: float = 0.01
    spanning: bool = False

    def theory(self) -> Prediction:
        found = max_margin(*self.classes)
        return {
            "weights": found.weights,
            "multipliers": found.multipliers,
            "sum": np.array(found.multipliers.sum()),
            "margins": found.margins,
        }

    def measure(self, key) -> Measurement:
        classes = self.classes
        tried, cones = separable.margin_by_enumeration(classes), separable.margin_by_cones(classes)
        machine = separable.margin_by_scikit_learn(classes)
        nearest = (classes.signed @ tried.weights).min() / np.linalg.norm(tried.weights)
        return {
            "weights": exact(tried.weights),
            "multipliers": exact(tried.multipliers),
            "sum": exact(1 / nearest**2),
            "margins": exact(classes.signed @ tried.weights),
            "cones": exact(cones.weights),
            "cone multipliers": exact(cones.multipliers),
            "machine": exact(machine.weights),
            "machine multipliers": exact(machine.multipliers),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        w, a, size = predicted["weights"], predicted["multipliers"], float(predicted["sum"])
        return [
            absolute_error("weights, by trying all sets", w, measured["weights"], _EXACT * size),
            absolute_error("multipliers, by trying all sets", a, measured["multipliers"], _EXACT * size),
            relative_error("sum of multipliers, 1 / margin^2", predicted["sum"], measured["sum"], _EXACT),
            absolute_error("margins", predicted["margins"], measured["margins"], _EXACT * size),
            absolute_error("weights, by cones", w, measured["cones"], _CONVEX * size),
            absolute_error("multipliers, by cones", a, measured["cone multipliers"], _CONVEX * size),
        ]

    def conditions(self, predicted: Prediction, measured: Measurement) -> Checks:
        """The optimality conditions themselves, and scikit-learn's machine to its own accuracy."""
        w, a, rows = predicted["weights"], predicted["multipliers"], self.classes.signed
        m, size = rows @ w, float(np.abs(a).sum())
        machine = measured["machine"].value
        cosine = w @ machine / np.linalg.norm(w) / np.linalg.norm(machine)
        return [
            absolute_error(
                "stationarity, w - sum a_i y_i x_i", w - a @ rows, np.zeros_like(w), _EXACT * size
            ),
            absolute_error("feasibility, margins below one", np.minimum(m - 1, 0), np.zeros_like(m), _EXACT),
            absolute_error("margins", predicted["margins"], measured["margins"], _EXACT * size),
            relative_error("sum of multipliers, 1 / margin^2", predicted["sum"], measured["sum"], _EXACT),
            absolute_error("complementarity, a_i (m_i - 1)", a * (m - 1), np.zeros_like(m), _EXACT * size),
            absolute_error("signs of multipliers", np.minimum(a, 0), np.zeros_like(a), _EXACT),
            absolute_error("cosine with scikit-learn's machine", 1.0, cosine, 1e-3),
            absolute_error("scikit-learn's multipliers", a, measured["machine multipliers"], 1e-3 * size),
        ]


def _equal_multipliers(setting: Optimality, value: np.ndarray) -> np.ndarray:
    """The same multiplier at every point on the margin."""
    return np.where(value > 0, value.sum() / np.count_nonzero(value), 0.0)


@dataclass(frozen=True)
class Way(Separable):
    """The last quarter of the way to the horizon, or to a cosine of 0.999 if that is later."""

    loss: str = "exponential"
    records: int = 12

    @property
    def log_times(self) -> np.ndarray:
        found = separable.margin_by_enumeration(self.classes)
        held = found.multipliers > 0
        rows = self.classes.signed[held]
        offset = np.linalg.solve(rows, -np.log(self.points * found.multipliers[held]))
        across = offset - found.weights * (found.weights @ offset) / (found.weights @ found.weights)
        # A cosine of 0.999 is an angle of 0.0447.
        near = np.linalg.norm(across) / np.linalg.norm(found.weights) / 0.04
        return np.linspace(0.75, 1.0, self.records) * max(self.horizon, near + self.horizon / 4)

    def theory(self) -> Prediction:
        found = max_margin(*self.classes)
        angles = np.array([found.angle_at(t) for t in self.log_times])
        return {
            "offset": found.offset,
            "angles": angles,
            "constant": np.array(found.direction_constant),
            "direction": found.direction,
        }

    def measure(self, key) -> Measurement:
        classes, times = self.classes, self.log_times
        w = separable_flow(classes.x, classes.y, times, loss=self.loss)  # type: ignore[arg-type]
        limit = separable.margin_by_enumeration(classes).weights
        along = w @ limit / np.linalg.norm(limit)
        across = np.linalg.norm(w - along[:, None] * limit / np.linalg.norm(limit), axis=1)
        return {
            "offset": exact(w[-1] - limit * times[-1]),
            "angles": exact(np.arctan2(across, along)),
            "constant": _constant(times, along / across),
            "weights": exact(w[-1]),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        size = 1 + np.abs(predicted["offset"]).max()
        end = measured["weights"].value
        cosine = predicted["direction"] @ end / np.linalg.norm(end)
        return [
            absolute_error("offset", predicted["offset"], measured["offset"], _LATE * size),
            relative_error("angle to the hard margin", predicted["angles"], measured["angles"], 10 * _LATE),
            relative_error(
                "angle times log t, fitted", predicted["constant"], measured["constant"], 10 * _LATE
            ),
            absolute_error("cosine at the end", 1.0, cosine, 1e-3),
        ]  # fmt: skip


def _constant(times: np.ndarray, cotangents: np.ndarray) -> Estimate:
    """One over the slope of cot(angle) in log t, with the standard error of a straight line."""
    (slope, _), covariance = np.polyfit(times, cotangents, 1, cov=True)
    return Estimate.of(1 / slope, np.sqrt(covariance[0, 0]) / slope**2, len(times) - 2)


def _no_offset(setting: Way, value: np.ndarray) -> np.ndarray:
    """Weights that only grow."""
    return np.zeros_like(value)


def _square_of_the_logarithm(setting: Way, value: np.ndarray) -> np.ndarray:
    """An angle that falls like 1 / (log t)^2."""
    times = setting.log_times
    return value[0] * (times[0] / times) ** 2


def _sum_of_losses(setting: Way, value: np.ndarray) -> np.ndarray:
    """No 1/n before the loss: e^(-y_i x_i.offset) = a_i."""
    found = separable.margin_by_enumeration(setting.classes)
    held = found.multipliers > 0
    return np.linalg.solve(setting.classes.signed[held], -np.log(found.multipliers[held]))


def _equal_pulls(setting: Way, value: np.ndarray) -> np.ndarray:
    """All support vectors with the same multiplier."""
    found = separable.margin_by_enumeration(setting.classes)
    held = found.multipliers > 0
    mean = found.multipliers.sum() / held.sum()
    return np.linalg.solve(setting.classes.signed[held], -np.full(held.sum(), np.log(setting.points * mean)))


@dataclass(frozen=True)
class LateLoss(Separable):
    """The loss at the horizon; the support vectors need not span all features."""

    least_rate: float = 0.02
    spanning: bool = False
    losses: tuple[str, ...] = ("exponential", "logistic")

    def theory(self) -> Prediction:
        found = max_margin(*self.classes)
        log_time = self.horizon
        return {"limit": np.full(len(self.losses), np.exp(log_time) * found.loss_at(log_time))}

    def measure(self, key) -> Measurement:
        (x, y), end = self.classes, np.array([self.horizon])
        found = []
        for loss in self.losses:
            m = self.classes.signed @ separable_flow(x, y, end, loss=loss)[0]  # type: ignore[arg-type]
            # The logistic loss is its tail to within e^-m.
            found.append(np.exp(end[0] - m).mean())
        return {"limit": exact(np.array(found))}

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        return [relative_error("t times the loss", predicted["limit"], measured["limit"], _LATE)]


def _support_vectors(setting: LateLoss, value: np.ndarray) -> np.ndarray:
    """The number of support vectors."""
    found = separable.margin_by_enumeration(setting.classes)
    return np.full_like(value, np.count_nonzero(found.multipliers))


@dataclass(frozen=True)
class SquaredWeights(RandomProblem):
    """beta = u^2 - v^2 from u = v = start, until unused features have a share `left`."""

    points: int = 6
    features: int = 4
    start: float = 0.1
    slack: float = 0.35
    left: float = 3e-3
    share: float = 0.2

    @functools.cached_property
    def classes(self) -> Classes:
        """Classes whose sparse and hard margins differ."""
        return separable.draw_with_sparse_margin(
            self.rng(0), self.points, self.features, self.slack, 0.9, self.share
        )

    @property
    def log_times(self) -> np.ndarray:
        """Up to log t = start^2 left^(-1 / (1 - c)), and at least 10,000."""
        b, a = separable.sparse_margin(self.classes)
        slopes = np.abs(a @ self.classes.signed)[b == 0]
        end = self.start**2 * self.left ** (-1 / (1 - slopes.max()))
        return max(float(end), 1e4) * np.array([0.01, 0.1, 1.0])

    def theory(self) -> Prediction:
        found = sparse_margin(*self.classes)
        return {
            "direction": found.weights / np.linalg.norm(found.weights),
            "margin": np.array(found.margin),
            "alignment": np.array(1.0),
        }

    def measure(self, key) -> Measurement:
        found = separable.squares_flow(self.classes, self.start, self.log_times)
        margins = (found.beta @ self.classes.signed.T).min(axis=1) / np.abs(found.beta).sum(axis=1)
        hard = separable.margin_by_enumeration(self.classes).weights
        end = found.beta[-1] / np.linalg.norm(found.beta[-1])
        return {
            "direction": exact(end),
            "margins": exact(margins),
            "alignment": exact(found.alignment[-1]),
            "cosine with the hard margin": exact(end @ hard / np.linalg.norm(hard)),
        }

    def compare(self, predicted: Prediction, measured: Measurement) -> Checks:
        margins, best = measured["margins"].value, float(predicted["margin"])
        cosine = measured["direction"].value @ predicted["direction"]
        return [
            absolute_error("cosine with the sparse margin", 1.0, cosine, 5e-3),
            relative_error("margin in the sum of sizes", best, margins[-1], 0.02),
            upper_bound("margins that rise", np.append(margins[1:], best), margins),
            absolute_error(
                "alignment of weights and gradient", predicted["alignment"], measured["alignment"], 3e-3
            ),
            upper_bound("cosine with the hard margin", 0.95, measured["cosine with the hard margin"]),
        ]


def _hard_margin(setting: SquaredWeights, value: np.ndarray) -> np.ndarray:
    """The direction of the support vector machine."""
    w = separable.margin_by_enumeration(setting.classes).weights
    return w / np.linalg.norm(w)


CLAIMS = (
    Claim(
        id="max-margin-kkt",
        title="the hard margin is made of its support vectors",
        statement="""The shortest w with y_i w.x_i at least 1 is sum_i a_i y_i x_i with a_i at least 0, and
        a_i > 0 only where y_i w.x_i = 1: the support vectors. |w|^2 = sum_i a_i = 1 / margin^2.""",
        source=f"{_SOURCE} (which has a_i = 0 at the support vectors)",
        quick=Optimality(),
        full=Optimality(points=14, features=4),
        wrong={"sum": power(0.5), "multipliers": _equal_multipliers},
    ),
    Claim(
        id="svm-kkt",
        title="the conditions of a hard margin hold to rounding, and a support vector machine finds it",
        statement="""w = sum_i a_i y_i x_i, all margins at least one, a_i at least 0, and a_i (y_i w.x_i - 1)
        = 0, where the multipliers are those of the Lagrangian |w|^2 / 2 - sum_i a_i (y_i w.x_i - 1).
        Support vectors of a non-degenerate problem have different multipliers.""",
        source=f"{IEMS_402}, implicit bias (with the sign of the multipliers)",
        quick=Optimality(points=9),
        full=Optimality(points=12, features=4),
        compare=Optimality.conditions,
        wrong={"multipliers": _equal_multipliers, "weights": scaled(0.99)},
    ),
    Claim(
        id="max-margin-direction",
        title="gradient flow turns to the hard margin like 1 / log t, with a computable offset",
        statement="""On the mean exponential loss of separable classes w(t) = w_hat log t + w_tilde + o(1)
        with e^(-y_i x_i.w_tilde) = n a_i at the support vectors, if they are a basis. The angle to w_hat
        times log t tends to |w_tilde across w_hat| / |w_hat|. What is left decays like t^-min(1, lambda,
        gap), so that all is compared at log t = 16 / min(1, lambda, gap) and beyond.""",
        source=f"{_SOURCE} (with the smallest margin outside the support in the gap)",
        quick=Way(),
        full=Way(points=12, features=4, least_rate=0.02, records=40),
        figure=Curves("log_times", r"$\log t$"),
        wrong={"offset": _no_offset, "angles": _square_of_the_logarithm, "constant": scaled(1.01)},
    ),
    Claim(
        id="logistic-log-t-law",
        title="logistic loss: the same law, with the number of points in the offset",
        statement="""Gradient flow on the mean logistic loss has theta = theta_svm log t + rho with
        e^(-z_i.rho) / n = a_i for the support vectors z_i = y_i x_i, if they are a basis, and log t times
        the angle to theta_svm tends to |rho across theta_svm| / |theta_svm|.""",
        source=f"{IEMS_402}, implicit bias (minus the gradient is parallel to theta)",
        quick=Way(loss="logistic", points=10),
        full=Way(loss="logistic", points=14, features=4, least_rate=0.02, records=40),
        figure=Curves("log_times", r"$\log t$"),
        wrong={"offset": (_sum_of_losses, _equal_pulls), "constant": scaled(0.99)},
    ),
    Claim(
        id="exponential-loss-one-over-t",
        title="the loss falls like 1 / (margin^2 t)",
        statement="""t times the mean exponential or logistic loss tends to sum_i a_i = |w_hat|^2 = 1 /
        margin^2, whether or not the support vectors span all features; it is compared at log t = 16 /
        min(1, lambda, gap) + log |w_hat|^2.""",
        source=_SOURCE,
        quick=LateLoss(),
        full=LateLoss(points=14, features=5, least_rate=0.01),
        wrong={"limit": (power(0.5), _support_vectors, shifted(1e-2))},
    ),
    Claim(
        id="homogeneous-kkt",
        title="squared weights go to the sparse margin, not to the hard one",
        statement="""The direction of a homogeneous model tends to a stationary point of the margin in the
        norm of its parameters, where minus the gradient is parallel to them. For beta = u^2 - v^2 this is
        the margin in the sum of sizes of beta: the margin rises with log t towards its largest value, and the
        direction stays away from the support vector machine. Unused features fall behind like (log t)^-(1
        - c), c the largest of their slopes; every point that holds the margin has a fifth of all
        multipliers here, since one with less is felt much later.""",
        source=f"{IEMS_402}, implicit bias (which expects the support vector machine)",
        quick=SquaredWeights(),
        full=SquaredWeights(points=8, features=6, slack=0.3),
        wrong={"direction": _hard_margin, "margin": scaled(1.05)},
    ),
)
