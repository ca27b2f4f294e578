"""What claims about coefficients of 1/width in trained networks share: cases, fits in 1/n and verdicts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.course._lab.claim import Check, Claim, Measurement, Prediction, Wrong
from finitewidth.course._lab.comparison import upper_bound, z_score
from finitewidth.course._lab.estimate import Estimate, combined, propagated, stacked
from finitewidth.course._lab.wrong import scaled
from finitewidth.course.finite_width_after_training.networks.trained_moments import Ensemble
from finitewidth.report import style
from finitewidth.report.style import Axes, Figure

_VARIANCES = {"tanh": (0.1, 1.3), "gelu": (0.1, 1.7)}
_LAMBDA_B = 0.1

# A coefficient, or the difference of two, is seen when it is four standard errors away from zero.
SEEN = 1 / 4
# The part of the distance to infinite width that the first order may leave at width 64.
_LEFT = 1 / 3


@dataclass(frozen=True)
class Case:
    """Three patients to learn from and others to predict, and how networks are trained on them.

    The patients were picked by their predicted coefficients: large against the noise of an ensemble, and
    small against the mean at width 64. With a label of 2.45 among them (rows 32, 52, 27 and 44) 38 per
    cent of the coefficient was missing at width 64. Those of GELU were picked from 184 random triples with
    well-conditioned kernels, for a coefficient that changes with the learning rate.
    """

    activation: str
    depth: int
    eta: float
    steps: int
    train: tuple[int, ...] = (43, 2, 10)
    test: tuple[int, ...] = (20,)
    outputs: int = 1
    stopped: bool = False
    ridge: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.activation}, depth {self.depth}"

    @property
    def training(self) -> str:
        if self.ridge > 0:
            return f"ridge {self.ridge:g}" + (f", {self.steps} steps" if self.stopped else "")
        return f"$\\eta$ = {self.eta:g}, " + (f"{self.steps} steps" if self.stopped else "to the end")

    def network(self, width: int) -> Layer:
        hidden = (width,) * (self.depth - 1)
        C_b, C_W = _VARIANCES[self.activation]
        return MLP(hidden, self.activation, C_b, C_W, _LAMBDA_B, 1.0, n_out=self.outputs)

    def data(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Standardised inputs and targets; a second target is that of other patients, sign changed."""
        from finitewidth.tables.sets import built_in

        diabetes = built_in("diabetes")
        targets = np.concatenate([diabetes.y, -diabetes.y[::-1]], axis=1)[:, : self.outputs]
        train, test = list(self.train), list(self.test)
        return diabetes.x[train], targets[train], diabetes.x[test]


@dataclass(frozen=True)
class TrainedEnsembles:
    """Cases, widths, numbers of trained pairs and of linearised draws at each width, and what is asked.

    `pairs` is one number for all cases or one for each: small coefficients of long training need more. A
    polynomial in 1/n of the given degree is fitted; `precision` bounds the standard error of its value at
    1/n = 0, relative to the coefficient, and `closer` asks whether at width 64 the first order takes away two
    thirds of the distance to infinite width.
    """

    cases: tuple[Case, ...]
    widths: tuple[int, ...]
    pairs: int | tuple[int, ...]
    linear: int
    degree: int
    precision: float
    closer: bool = False

    def pairs_of(self, case: int) -> int:
        """Pairs to train at each width in a case."""
        return self.pairs if isinstance(self.pairs, int) else self.pairs[case]


def scaled_shift(setting: TrainedEnsembles, infinite: np.ndarray, measured: Estimate) -> Estimate:
    """n (measured - infinite width): (widths, cases, entries)."""
    n = np.array(setting.widths)[:, None, None]
    return measured.plus(-infinite).times(n)


def intercept(
    setting: TrainedEnsembles, shift: Estimate
) -> tuple[Estimate, Float[np.ndarray, "power cases entries"]]:
    """Value at 1/n = 0 of a weighted polynomial in 1/n for every case and entry, and its coefficients."""
    powers = np.vander(1 / np.array(setting.widths), setting.degree + 1, increasing=True)
    weight = 1 / shift.sem**2
    normal = np.linalg.inv(np.einsum("np,nce,nq->cepq", powers, weight, powers))
    fits = np.einsum("cepq,nq,nce->pce", normal, powers, weight * shift.value)
    dof = np.broadcast_to(shift.dof, shift.value.shape).min(axis=0)
    return Estimate(fits[0], np.sqrt(normal[..., 0, 0]), dof), fits


def coefficient_checks(setting: TrainedEnsembles, predicted: Prediction, measured: Estimate) -> list[Check]:
    """Agreement at 1/n = 0, precision, the difference between cases, and what is left at width 64."""
    coefficient = predicted["coefficient"]
    shift = scaled_shift(setting, predicted["infinite"], measured)
    at_zero, _ = intercept(setting, shift)
    checks = [
        z_score("n (networks - infinite width) as 1/n -> 0", coefficient, at_zero),
        _precision("standard error / coefficient", coefficient, at_zero.sem, setting.precision),
    ]
    if len(setting.cases) == 2:
        change = coefficient[:1] - coefficient[1:]
        seen = combined((1, -1), (at_zero[:1], at_zero[1:]))
        checks.append(z_score("its change with the training", change, seen))
        checks.append(_precision("standard error / change", change, seen.sem, SEEN))
    if setting.closer:
        left = distance_left(shift[setting.widths.index(64)], coefficient)
        checks.append(upper_bound("distance left at width 64", _LEFT, left))
    return checks


def distance_left(shift: Estimate, coefficient: Float[np.ndarray, "cases entries"]) -> Estimate:
    """The part of the distance to infinite width that the first order leaves, for every case."""
    return stacked(
        [
            propagated(lambda found, c=c: np.linalg.norm(found - c) / np.linalg.norm(found), shift[i])
            for i, c in enumerate(coefficient)
        ]
    )


def _precision(name: str, predicted: np.ndarray, sem: np.ndarray, most: float) -> Check:
    """The largest standard error of a case over its largest coefficient."""
    spread = float((sem.max(axis=1) / np.abs(predicted).max(axis=1)).max())
    return Check(name, 0.0, spread, spread, most, "relative error")


@dataclass(frozen=True)
class Moment:
    """A moment of trained outputs: theory, measurement, comparison and picture of its coefficient of 1/n.

    Attributes
    ----------
    name, symbol
        What is measured, and its symbol on the axis.
    predict
        Entries of the moment at infinite width, and their coefficients of 1/n.
    observe
        The same entries of networks of some width, trained on the data of a case.
    labels
        What the entries of a case are called.
    """

    name: str
    symbol: str
    predict: Callable[[Case], tuple[np.ndarray, np.ndarray]]
    observe: Callable[[Case, Layer, Ensemble, PRNGKeyArray], Estimate]
    labels: Callable[[Case], list[str]]

    def claim(self, factor: float, *others: Wrong, **about: Any) -> Claim:
        """A claim that rejects the coefficient times a wrong factor, and `others`; `about` as for `Claim`."""
        wrong = {"coefficient": (scaled(factor), *others)}
        return Claim(
            theory=self.theory,
            measure=self.measure,
            compare=self.compare,
            figure=self.figure,
            wrong=wrong,
            **about,
        )

    def theory(self, setting: TrainedEnsembles) -> Prediction:
        infinite, coefficients = zip(*(self.predict(case) for case in setting.cases), strict=True)
        return {"infinite": np.stack(infinite), "coefficient": np.stack(coefficients)}

    def measure(self, setting: TrainedEnsembles, key: PRNGKeyArray) -> Measurement:
        by_width = []
        for w, n in enumerate(setting.widths):
            by_case = []
            for c, case in enumerate(setting.cases):
                sizes = setting.pairs_of(c), setting.linear
                ensemble = Ensemble(*case.data(), case.eta, case.steps, *sizes, case.ridge)
                case_key = jax.random.fold_in(key, 100 * c + w)
                by_case.append(self.observe(case, case.network(n), ensemble, case_key))
            by_width.append(stacked(by_case))
        return {self.name: stacked(by_width)}

    def compare(self, setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> list[Check]:
        return coefficient_checks(setting, predicted, measured[self.name])

    def figure(self, setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> Figure:
        title = f"The trained {self.name} meets its 1/n coefficient: {setting.cases[0].name}"
        figure, (axes,) = style.panels(title)
        self.draw(axes, setting, predicted, measured)
        axes.set_title("stars: prediction; dashed: polynomial in 1/n through the networks")
        return figure

    def draw(
        self, axes: Axes, setting: TrainedEnsembles, predicted: Prediction, measured: Measurement
    ) -> None:
        """n (measured - infinite width) against 1/n, with the polynomial fit and the predicted intercept."""
        shift = scaled_shift(setting, predicted["infinite"], measured[self.name])
        fits = intercept(setting, shift)[1]
        inverse = 1 / np.array(setting.widths)
        fitted = np.linspace(0, 1.05 * inverse.max(), 100)
        labels = [self.labels(case) for case in setting.cases]
        colors = iter(style.PALETTE)
        for c, e in np.ndindex(*predicted["coefficient"].shape):
            color, curve = next(colors), np.polynomial.polynomial.polyval(fitted, fits[:, c, e])
            value, sem = shift[:, c, e]
            style.measured_points(axes, inverse, value, sem, color, labels[c][e])
            axes.plot(fitted, curve, "--", color=color, lw=1.0)
            axes.plot(0, predicted["coefficient"][c, e], "*", color=color, ms=13, clip_on=False, zorder=4)
        axes.axhline(0, color=style.GREY, lw=0.8)
        # Labels of wider networks would run into each other.
        ticks = [n for n in setting.widths if n <= 4 * min(setting.widths)]
        axes.set_xticks([0, *(1 / n for n in ticks)], ["0", *(f"1/{n}" for n in ticks)])
        name = rf"\mathrm{{{self.symbol}}}"
        axes.set(xlabel=r"$1/n$", ylabel=rf"$n\,({name}_n-{name}_\infty)$", xlim=(0, fitted[-1]))
        narrow = {"handlelength": 1.0, "handletextpad": 0.5, "columnspacing": 1.0}
        axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2, **narrow)
