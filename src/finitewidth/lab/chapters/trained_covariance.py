"""Trained networks of finite width: their covariance, too, moves by a predicted multiple of 1/width."""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from finitewidth.dynamics.algorithms import GradientDescent
from finitewidth.lab.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.estimate import Estimate, stacked
from finitewidth.lab.trained_ensembles import SEEN, Case, TrainedEnsembles, draw_widths, verdict, width_figure
from finitewidth.lab.trained_moments import trained_covariance
from finitewidth.prediction.predict import predict


def _entries(matrix: np.ndarray) -> np.ndarray:
    """Those of a symmetric matrix, each once."""
    return matrix[np.triu_indices(len(matrix))]


def _theory(setting: TrainedEnsembles) -> Prediction:
    infinite, coefficients = [], []
    for case in setting.cases:
        n = 4096  # the coefficient does not depend on it; a wide network gives no warning
        law = predict(case.network(n), *case.data(), GradientDescent(case.eta), order=1)
        correction = np.asarray(law.covariance_correction)
        infinite.append(_entries(np.asarray(law.covariance) - correction))
        coefficients.append(_entries(n * correction))
    return {"infinite": np.stack(infinite), "coefficient": np.stack(coefficients)}


def _measure(setting: TrainedEnsembles, key: PRNGKeyArray) -> Measurement:
    by_width = []
    for w, n in enumerate(setting.widths):
        by_case = []
        for c, case in enumerate(setting.cases):
            covariance = trained_covariance(
                case.network(n), *case.data(), jax.random.fold_in(key, 100 * c + w),
                eta=case.eta, steps=case.steps, pairs=setting.pairs, linear=setting.linear,
            )  # fmt: skip
            by_case.append(Estimate(_entries(covariance.value), _entries(covariance.sem)))
        by_width.append(stacked(by_case))
    return {"covariance": stacked(by_width)}


def _compare(setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> Verdict:
    return verdict(setting, predicted, measured["covariance"], closer=False)


def draw(axes: Axes, setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> None:
    """The trained covariances against 1/n, in a panel."""
    labels = []
    for case in setting.cases:
        pairs = zip(*np.triu_indices(len(case.test)), strict=True)
        labels.append([f"variance at point {a + 1}" if a == b else "covariance of both" for a, b in pairs])
    draw_widths(axes, setting, predicted, measured["covariance"], "Cov", labels)


def _figure(setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> Figure:
    title = f"The trained covariance meets its 1/n coefficient: {setting.cases[0].name}"
    return width_figure(title, lambda axes: draw(axes, setting, predicted, measured))


_CASE = Case("tanh", 2, 0.5, 30, test=(20, 49))

CLAIMS = (
    Claim(
        id="trained-covariance-width",
        title="finite width changes the trained covariance by a predicted multiple of 1/n",
        chapter="Finite width after training",
        statement="The covariance of trained networks over initialisations differs from that of infinite "
        "width by a predicted multiple of 1/n, from the start's covariance, the fluctuations of the tangent "
        "kernel, its correlation with the start, and its changes in training.",
        source="Roberts, Yaida, Hanin, The Principles of Deep Learning Theory, chapters 8, 11 and infinity",
        quick=TrainedEnsembles((_CASE,), (64, 128), 2000, 8000, 1, SEEN),
        full=TrainedEnsembles((_CASE,), (32, 64, 128, 256, 512), 12_000, 48_000, 2, 0.1),
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
    ),
)
