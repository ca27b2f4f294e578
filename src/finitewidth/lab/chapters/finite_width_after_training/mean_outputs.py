"""Trained networks of finite width: the mean moves by a predicted multiple of 1/width."""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from finitewidth.dynamics.algorithms import GradientDescent
from finitewidth.lab.framework.claim import Claim, Measurement, Prediction, Verdict
from finitewidth.lab.framework.estimate import Estimate, stacked
from finitewidth.lab.framework.sources import BEYOND, BOOK
from finitewidth.lab.instruments.trained_moments import Ensemble, trained_mean
from finitewidth.lab.shapes.trained_ensembles import (
    SEEN,
    Case,
    TrainedEnsembles,
    draw_widths,
    verdict,
    width_figure,
)
from finitewidth.prediction.predict import predict

_CHAPTER = "Finite width after training"
_SOURCE = f"{BEYOND}: {BOOK}, chapters 11 and infinity"


def _theory(setting: TrainedEnsembles) -> Prediction:
    infinite, coefficients = [], []
    for case in setting.cases:
        x, y, x_test = case.data()
        algorithm = GradientDescent(case.eta, case.steps) if case.stopped else GradientDescent(case.eta)
        n = 4096  # the coefficient does not depend on it; a wide network gives no warning
        law = predict(case.network(n), x, y, x_test, algorithm, order=1)
        infinite.append(np.asarray(law.mean - law.mean_correction).ravel())
        coefficients.append(n * np.asarray(law.mean_correction).ravel())
    return {"infinite": np.stack(infinite), "coefficient": np.stack(coefficients)}


def _measure(setting: TrainedEnsembles, key: PRNGKeyArray) -> Measurement:
    by_width = [
        stacked(
            [
                _ensemble(setting, case, n, jax.random.fold_in(key, 100 * c + w))
                for c, case in enumerate(setting.cases)
            ]
        )
        for w, n in enumerate(setting.widths)
    ]
    return {"mean": stacked(by_width)}


def _ensemble(setting: TrainedEnsembles, case: Case, n: int, key: PRNGKeyArray) -> Estimate:
    """Mean outputs of trained networks, one after the other."""
    ensemble = Ensemble(*case.data(), case.eta, case.steps, setting.pairs, setting.linear)
    mean = trained_mean(case.network(n), ensemble, key)
    return mean.reshape(-1)


def _compare(setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> Verdict:
    return verdict(setting, predicted, measured["mean"])


def draw(axes: Axes, setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> None:
    """The trained means against 1/n, in a panel."""
    outputs = lambda case: [f", output {o + 1}" for o in range(case.outputs)] if case.outputs > 1 else [""]
    labels = [[case.training + end for end in outputs(case)] for case in setting.cases]
    draw_widths(axes, setting, predicted, measured["mean"], "mean", labels)


def _figure(setting: TrainedEnsembles, predicted: Prediction, measured: Measurement) -> Figure:
    title = "The trained mean meets its 1/n coefficient"
    return width_figure(title, setting, lambda axes: draw(axes, setting, predicted, measured))


_WIDTHS = (64, 128, 256, 512)
_TANH = (Case("tanh", 2, 0.2, 70), Case("tanh", 2, 0.5, 30))
_GELU = (Case("gelu", 2, 0.1, 75, (33, 38, 11), (34,)), Case("gelu", 2, 0.28, 24, (33, 38, 11), (34,)))
_DEEP = (Case("tanh", 3, 0.3, 40),)
_STOPPED = (
    Case("tanh", 2, 0.15, 8, outputs=2, stopped=True),
    Case("tanh", 2, 0.5, 30, outputs=2),
)


def _claim(id: str, title: str, statement: str, quick: TrainedEnsembles, full: TrainedEnsembles) -> Claim:
    return Claim(
        id=id,
        title=title,
        chapter=_CHAPTER,
        statement=statement,
        source=_SOURCE,
        quick=quick,
        full=full,
        theory=_theory,
        measure=_measure,
        compare=_compare,
        figure=_figure,
    )


CLAIMS = (
    _claim(
        "trained-mean-width",
        "finite width shifts the trained mean by a predicted multiple of 1/n that depends on the step",
        "Averaged over initialisations, networks trained to the end by gradient descent differ from the "
        "infinite-width limit by c/n + O(1/n^2), with c from the mean, the fluctuations and the changes of "
        "the tangent kernel; c depends on the learning rate. At width 64 c/n removes at least two thirds "
        "of the difference.",
        TrainedEnsembles(_TANH[1:], (64, 128), 1000, 4000, 1, SEEN, closer=True),
        TrainedEnsembles(_TANH, _WIDTHS, 8000, 32_000, 2, 0.05, closer=True),
    ),
    _claim(
        "trained-mean-gelu",
        "the same for GELU networks",
        "The coefficient of 1/n in the trained mean, and its change with the learning rate, are predicted "
        "for GELU networks as well. At width 64 c/n removes at least two thirds of the difference.",
        TrainedEnsembles(_GELU[1:], (64, 128), 1000, 4000, 1, SEEN, closer=True),
        TrainedEnsembles(_GELU, _WIDTHS, 8000, 32_000, 2, 0.05, closer=True),
    ),
    _claim(
        "trained-mean-depth-3",
        "the same for two hidden layers, where the mean kernel shifts too",
        "The coefficient of 1/n in the trained mean is predicted for depth 3. At width 64 c/n removes at "
        "least two thirds of the difference.",
        TrainedEnsembles(_DEEP, (64, 128), 800, 8000, 1, SEEN, closer=True),
        TrainedEnsembles(_DEEP, _WIDTHS, 3000, 300_000, 2, 0.1, closer=True),
    ),
    _claim(
        "trained-mean-stopped",
        "the same for two coupled outputs, before the end of training and at it",
        "After any number of steps, and with several outputs, the trained mean moves by a predicted multiple "
        "of 1/n; the outputs are coupled at this order.",
        TrainedEnsembles(_STOPPED[:1], (64, 128), 4000, 16_000, 1, SEEN),
        TrainedEnsembles(_STOPPED, _WIDTHS, 16_000, 64_000, 2, 0.05),
    ),
)
