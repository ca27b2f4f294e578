"""Trained networks of finite width: their covariance, too, moves by a predicted multiple of 1/width."""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from finitewidth.dynamics.algorithms import GradientDescent
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.estimate import stacked
from finitewidth.lab.framework.sources import BEYOND, BOOK
from finitewidth.lab.instruments.trained_moments import Ensemble, trained_covariance
from finitewidth.lab.shapes.trained_ensembles import (
    SEEN,
    Case,
    TrainedEnsembles,
    draw_widths,
    verdict,
    width_figure,
)
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
            ensemble = Ensemble(*case.data(), case.eta, case.steps, setting.pairs, setting.linear)
            covariance = trained_covariance(case.network(n), ensemble, jax.random.fold_in(key, 100 * c + w))
            by_case.append(covariance[:, 0, :, 0][np.triu_indices(len(case.test))])
        by_width.append(stacked(by_case))
    return {"covariance": stacked(by_width)}


def _compare(setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> Verdict:
    return verdict(setting, predicted, measured["covariance"])


def draw(axes: Axes, setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> None:
    """The trained covariances against 1/n, in a panel."""
    labels = []
    for case in setting.cases:
        pairs = zip(*np.triu_indices(len(case.test)), strict=True)
        labels.append([f"variance at point {a + 1}" if a == b else "covariance of both" for a, b in pairs])
    draw_widths(axes, setting, predicted, measured["covariance"], "Cov", labels)


def _figure(setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> Figure:
    title = "The trained covariance meets its 1/n coefficient"
    return width_figure(title, setting, lambda axes: draw(axes, setting, predicted, measured))


_SHALLOW = Case("tanh", 2, 0.5, 30, test=(20, 49))
_DEEP = Case("tanh", 3, 0.3, 40, test=(20, 49))


def _claim(id: str, title: str, statement: str, quick: TrainedEnsembles, full: TrainedEnsembles) -> Claim:
    return Claim(
        id=id,
        title=title,
        chapter="Finite width after training",
        statement=statement,
        source=f"{BEYOND}: {BOOK}, chapters 8, 11 and infinity",
        quick=quick,
        full=full,
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
    )


CLAIMS = (
    _claim(
        "trained-covariance-width",
        "finite width changes the trained covariance by a predicted multiple of 1/n",
        "The covariance of trained networks over initialisations differs from that of infinite width by a "
        "predicted multiple of 1/n, from the fluctuations of the tangent kernel, their correlation with the "
        "start, and the kernel's changes in training.",
        TrainedEnsembles((_SHALLOW,), (64, 128), 2000, 8000, 1, SEEN),
        TrainedEnsembles((_SHALLOW,), (64, 128, 256, 512), 12_000, 48_000, 2, 0.1),
    ),
    _claim(
        "trained-covariance-depth-3",
        "the same for two hidden layers, where both mean kernels shift too",
        "The coefficient of 1/n in the trained covariance is predicted for depth 3, where the covariance of "
        "the start and the mean of the tangent kernel depend on the width.",
        TrainedEnsembles((_DEEP,), (64, 128), 1500, 60_000, 1, SEEN),
        TrainedEnsembles((_DEEP,), (64, 128, 256, 512), 3000, 600_000, 1, 0.1),
    ),
)
