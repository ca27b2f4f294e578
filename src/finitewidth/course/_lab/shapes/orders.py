"""Claims about powers: what a formula leaves out falls like a power of a small number."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.course._instruments import quadratic
from finitewidth.course._instruments.quadratic import Problem
from finitewidth.course._lab.claim import Checks, Claim, Measurement, Prediction
from finitewidth.course._lab.comparison import absolute_error
from finitewidth.course._lab.estimate import exact
from finitewidth.course._lab.figures import power_laws
from finitewidth.course._lab.random_problem import RandomProblem
from finitewidth.report.style import Figure


@dataclass(frozen=True)
class Orders(RandomProblem):
    """One random problem, and a nonlinearity that is halved again and again."""

    epsilon: float
    halvings: int
    train: int = 6
    test: int = 5
    features: int = 14
    edge: float = 1.3

    @property
    def epsilons(self) -> np.ndarray:
        return self.epsilon * 0.5 ** np.arange(self.halvings + 1)

    @property
    def problem(self) -> Problem:
        """A random quadratic model of these sizes."""
        return quadratic.draw(self.rng(0), self.train, self.test, self.features)


# Quantities of a problem at one epsilon.
AtEpsilon = Callable[[Orders, float], Mapping[str, Any]]


@dataclass(frozen=True)
class Curve:
    """A formula, the measured quantity it is held against, and the power that is left; None is nothing."""

    formula: str
    order: float | int | None
    against: str = "outputs"


QUICK, FULL = Orders(0.01, 3), Orders(0.02, 5, train=12, test=10, features=40)
_TOLERANCE = 0.02


def order_claim(
    predict: AtEpsilon,
    measure: AtEpsilon,
    curves: tuple[Curve, ...],
    *,
    quick: Orders = QUICK,
    full: Orders = FULL,
    **about: Any,
) -> Claim:
    """A claim whose checks are fitted powers of epsilon of |formula - measurement|.

    Both sides are given at one epsilon, and asked at all those of the setting. `about` are id, title,
    statement, source and wrong theories, as for `Claim`.
    """
    powers = [curve for curve in curves if curve.order is not None]

    def theory(setting: Orders) -> Prediction:
        orders = {f"{curve.formula} order": np.array(curve.order) for curve in powers}
        found = _at_every_epsilon(predict, setting)
        return {curve.formula: found[curve.formula] for curve in curves} | orders

    @functools.wraps(measure)
    def observe(setting: Orders, key: PRNGKeyArray) -> Measurement:
        return {name: exact(value) for name, value in _at_every_epsilon(measure, setting).items()}

    def errors(predicted: Prediction, measured: Measurement, curve: Curve) -> np.ndarray:
        # The largest entry would have a kink wherever another entry takes the lead.
        gap = predicted[curve.formula] - measured[curve.against].value
        return np.linalg.norm(gap.reshape(len(gap), -1), axis=1)

    def compare(setting: Orders, predicted: Prediction, measured: Measurement) -> Checks:
        for curve in curves:
            name, found = curve.formula, measured[curve.against]
            if curve.order is None:
                rounding = setting.problem.rounding * max(1, np.abs(found.value).max())
                yield absolute_error(name, predicted[name], found, rounding)
            else:
                power = leading_power(setting.epsilons, errors(predicted, measured, curve))
                title = f"power of epsilon left by {name}"
                yield absolute_error(title, predicted[f"{name} order"], power, _TOLERANCE)

    def figure(setting: Orders, predicted: Prediction, measured: Measurement) -> Figure:
        laws = {
            rf"{c.formula}: $\epsilon^{{{c.order:g}}}$": (exact(errors(predicted, measured, c)), c.order)
            for c in powers
        }
        labels = r"nonlinearity $\epsilon$", "formula minus training"
        return power_laws(about["title"], setting.epsilons, laws, *labels, measured="real training")

    return Claim(
        theory=theory, measure=observe, compare=compare, figure=figure if powers else None,
        quick=quick, full=full, **about,
    )  # fmt: skip


def _at_every_epsilon(quantities: AtEpsilon, setting: Orders) -> dict[str, np.ndarray]:
    found = [quantities(setting, float(epsilon)) for epsilon in setting.epsilons]
    return {name: np.array([np.asarray(at[name]) for at in found]) for name in found[0]}


def off_by(power: int) -> Callable[[Orders, np.ndarray], np.ndarray]:
    """A formula with a mistake at this power of epsilon."""

    def wrong(setting: Orders, value: np.ndarray) -> np.ndarray:
        mistake = 0.3 * setting.epsilons**power
        return value + mistake.reshape(-1, *(1,) * (value.ndim - 1))

    return wrong


def fitted_power(small: np.ndarray, values: np.ndarray) -> float:
    """Slope of a straight line through the points of a doubly logarithmic plot."""
    return float(np.polyfit(np.log2(small), np.log2(values), 1)[0])


def leading_power(small: np.ndarray, values: np.ndarray) -> float:
    """The power p of a series a x^p (1 + c x + ...), from a fit to its logarithm with the term in c."""
    columns = np.stack([np.log(small), np.ones_like(small), small / small.max()], axis=1)
    return float(np.linalg.lstsq(columns, np.log(values), rcond=None)[0][0])
