"""Claims about powers: what a formula leaves out falls like a power of a small number."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from finitewidth.lab.framework.claim import Check, Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.comparison import absolute_error
from finitewidth.lab.framework.estimate import exact
from finitewidth.lab.framework.random_problem import RandomProblem, drawn
from finitewidth.lab.instruments import quadratic
from finitewidth.lab.instruments.quadratic import Problem
from finitewidth.report import style


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


Predict = Callable[[Orders], Mapping[str, np.ndarray]]
Measure = Callable[[Orders, PRNGKeyArray], Mapping[str, np.ndarray]]


@dataclass(frozen=True)
class Curve:
    """A formula, the measured quantity it is held against, and the power that is left; None is nothing."""

    formula: str
    order: float | int | None
    against: str = "outputs"


def order_claim(
    predict: Predict,
    measure: Measure,
    curves: tuple[Curve, ...],
    *,
    id: str,
    title: str,
    chapter: str,
    statement: str,
    source: str,
    heading: str,
    quick: Orders,
    full: Orders,
    tolerance: float = 0.02,
    deterministic: bool = False,
) -> Claim:
    """A claim whose checks are fitted powers of epsilon of |formula - measurement|."""

    def theory(setting: Orders) -> Prediction:
        orders = {f"{c.formula} order": np.array(c.order) for c in curves if c.order is not None}
        return {name: np.asarray(value) for name, value in predict(setting).items()} | orders

    @functools.wraps(measure)
    def observe(setting: Orders, key: PRNGKeyArray) -> Measurement:
        return {name: exact(np.asarray(value)) for name, value in measure(setting, key).items()}

    def errors(predicted: Prediction, measured: Measurement, curve: Curve) -> np.ndarray:
        # The largest entry would have a kink wherever another entry takes the lead.
        gap = predicted[curve.formula] - measured[curve.against].value
        return np.linalg.norm(gap.reshape(len(gap), -1), axis=1)

    def compare(setting: Orders, predicted: Prediction, measured: Measurement) -> Verdict:
        def check(curve: Curve) -> Check:
            if curve.order is None:
                exactly = measured[curve.against].value
                name, rounding = curve.formula, setting.problem.rounding
                return absolute_error(
                    name, predicted[name], exactly, rounding * max(1, np.abs(exactly).max())
                )
            power = leading_power(setting.epsilons, errors(predicted, measured, curve))
            name = f"power of epsilon left by {curve.formula}"
            return absolute_error(name, predicted[f"{curve.formula} order"], power, tolerance)

        return Verdict(tuple(check(curve) for curve in curves))

    def figure(setting: Orders, predicted: Prediction, measured: Measurement) -> Figure:
        picture, (axes,) = style.panels(heading)
        if all(curve.order is None for curve in curves):
            _draw_identity(axes, predicted[curves[0].formula], measured[curves[0].against].value)
            return picture
        for curve, color in zip(curves, style.PALETTE, strict=False):
            left = errors(predicted, measured, curve)
            if curve.order is None:
                axes.plot([], [], " ", label=f"{curve.formula}: exact to {left.max():.0e}")
                continue
            line = left[-1] * (setting.epsilons / setting.epsilons[-1]) ** curve.order
            label = rf"{curve.formula}: $\epsilon^{{{curve.order:g}}}$"
            style.theory_line(axes, setting.epsilons, line, color, label)
            style.measured_points(axes, setting.epsilons, left, np.zeros(len(left)), color)
        axes.set(
            xscale="log", yscale="log", xlabel=r"nonlinearity $\epsilon$", ylabel="formula minus training"
        )
        style.plain_ticks(axes.xaxis, setting.epsilons.tolist())
        beside = {"loc": "center left", "bbox_to_anchor": (1.0, 0.5)}
        style.legend(axes, "real training", "predicted power", error_bars=False, **beside)
        return picture

    return Claim(
        id, title, chapter, statement, source, quick, full, theory, observe, compare, figure,
        draw=drawn,
        deterministic=deterministic,
    )  # fmt: skip


def _draw_identity(axes: Axes, predicted: np.ndarray, measured: np.ndarray) -> None:
    """Both sides of an identity against each other."""
    reach = [float(predicted.min()), float(predicted.max())]
    style.theory_line(axes, reach, reach, style.GREY, "equal")
    style.measured_points(
        axes, predicted.ravel(), measured.ravel(), np.zeros(predicted.size), style.PALETTE[0]
    )
    axes.set(xlabel="formula", ylabel="real training")
    axes.legend()


def fitted_power(small: np.ndarray, values: np.ndarray) -> float:
    """Slope of a straight line through the points of a doubly logarithmic plot."""
    return float(np.polyfit(np.log2(small), np.log2(values), 1)[0])


def leading_power(small: np.ndarray, values: np.ndarray) -> float:
    """The power p of a series a x^p (1 + c x + ...), from a fit to its logarithm with the term in c."""
    columns = np.stack([np.log(small), np.ones_like(small), small / small.max()], axis=1)
    return float(np.linalg.lstsq(columns, np.log(values), rcond=None)[0][0])
