"""Networks held to their start by a ridge: mean and covariance move by predicted multiples of 1/width.

The end of such a training is a stationary point, so the coefficient knows neither step nor path. Networks are
trained until $(1-\\eta r)^T$ is a thousandth: moved features relax no faster. With a strong ridge that is too
soon for the outputs, whose rest is multiplied by n: their slowest mode is trained down to a millionth.
"""

from collections.abc import Callable

import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.architecture.layer import Layer
from finitewidth.course._lab.estimate import Estimate
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course.finite_width_after_training.claims._shared import SEEN, Case, Moment, TrainedEnsembles
from finitewidth.course.finite_width_after_training.networks.trained_moments import (
    Ensemble,
    trained_covariance,
    trained_mean,
)
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.methods.first_order.dense.covariance import dense_covariance
from finitewidth.prediction.methods.first_order.dense.mean import dense_mean
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from finitewidth.prediction.predict import predict
from finitewidth.statistics.first_order.corrections import Corrections, dense_corrections

_SOURCE = f"{BEYOND}: {BOOK}, chapters 11 and infinity, for the stationary point of a penalised loss"
_WIDE = 4096  # the coefficient does not depend on it; a wide network gives no warning


def _law(case: Case) -> TrainedDistribution:
    algorithm = GradientDescent(case.eta, case.steps) if case.stopped else GradientDescent()
    return predict(case.network(_WIDE), *case.data(), algorithm, order=1, ridge=case.ridge)


def _mean(case: Case) -> tuple[np.ndarray, np.ndarray]:
    law = _law(case)
    return np.asarray(law.infinite_width.mean).ravel(), _WIDE * np.asarray(law.mean_correction).ravel()


def _covariance(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Variances of all outputs at all test points."""
    law = _law(case)
    correction = law.output_covariance_correction
    assert correction is not None
    variances = np.einsum("aoao->ao", np.asarray(correction)).ravel()
    infinite = np.repeat(np.asarray(law.infinite_width.std) ** 2, case.outputs)
    return infinite, _WIDE * variances


def _observed_mean(case: Case, net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Estimate:
    return trained_mean(net, ensemble, key).reshape(-1)


def _observed_covariance(case: Case, net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Estimate:
    test, outputs = len(case.test), case.outputs
    rows, columns = np.divmod(np.arange(test * outputs), outputs)
    return trained_covariance(net, ensemble, key)[rows, columns, rows, columns]


def _labels(case: Case) -> list[str]:
    outputs = [f", output {o + 1}" for o in range(case.outputs)] if case.outputs > 1 else [""]
    return [case.training + output for output in outputs for _ in case.test]


def _nothing(setting: TrainedEnsembles, coefficient: np.ndarray) -> np.ndarray:
    """Infinite width: so small a coefficient that no width shows it."""
    return 1e-9 * coefficient


def _along_the_flow(
    coefficient: Callable[[Corrections, TrainingModes], np.ndarray],
) -> Callable[[TrainedEnsembles, np.ndarray], np.ndarray]:
    """The weights of gradient flow, with the ridge added to every eigenvalue."""

    def flow_with_shifted_eigenvalues(setting: TrainedEnsembles, right: np.ndarray) -> np.ndarray:
        found = []
        for case in setting.cases:
            x, y, x_test = case.data()
            tensors = dense_corrections(case.network(_WIDE), np.concatenate([x, x_test]))
            kernels = np.asarray(tensors.K), np.asarray(tensors.Theta)
            modes = TrainingModes.of(*kernels, y, GradientFlow(), ridge=case.ridge)
            found.append(coefficient(tensors, modes._replace(ridge=0.0)))
        return np.stack(found)

    return flow_with_shifted_eigenvalues


def _flow_mean(tensors: Corrections, modes: TrainingModes) -> np.ndarray:
    return np.asarray(dense_mean(tensors, modes).total).ravel()


def _flow_variances(tensors: Corrections, modes: TrainingModes) -> np.ndarray:
    return np.einsum("aoao->ao", dense_covariance(tensors, modes)).ravel()


MEAN = Moment("mean", "mean", _mean, _observed_mean, _labels)
COVARIANCE = Moment("variance", "Var", _covariance, _observed_covariance, _labels)
_NAIVE_MEAN, _NAIVE_VARIANCE = _along_the_flow(_flow_mean), _along_the_flow(_flow_variances)

_WIDTHS = (64, 128, 256, 512)
# A sixth, a third and all of the mean eigenvalue of the training kernel. At a twentieth the coefficient is
# small against its noise.
_PATIENTS = {"train": (71, 92, 68), "test": (58,)}
_TANH = (
    Case("tanh", 2, 0.36, 125, **_PATIENTS, ridge=0.15),
    Case("tanh", 2, 0.35, 64, **_PATIENTS, ridge=0.3),
    Case("tanh", 2, 0.27, 40, **_PATIENTS, ridge=1.0),
)
_TWO_OUTPUTS = (
    Case("tanh", 2, 0.35, 64, **_PATIENTS, outputs=2, ridge=0.3),
    Case("tanh", 2, 0.35, 8, **_PATIENTS, outputs=2, stopped=True, ridge=0.3),
)
# A third, all and twice of it. At a twentieth a standard error of five per cent would take hours.
_DEEP_GELU = tuple(
    Case("gelu", 3, eta, steps, (85, 43, 20), (26,), ridge=ridge)
    for eta, steps, ridge in ((0.1, 95, 0.7), (0.08, 50, 2.3), (0.06, 35, 5.0))
)
_SPREAD = tuple(
    Case("tanh", 2, eta, steps, (29, 52, 48), (7,), ridge=ridge)
    for eta, steps, ridge in ((0.45, 290, 0.053), (0.4, 55, 0.32), (0.29, 23, 1.05))
)

CLAIMS = (
    MEAN.claim(
        1.5,
        _nothing,
        _NAIVE_MEAN,
        source=_SOURCE,
        id="trained-mean-ridge",
        title="with a ridge the coefficient of 1/n in the trained mean is that of a stationary point",
        statement=(
            "Networks held to their start by a penalty differ in the mean from infinite width by c/n, with c "
            "from the tensors of the tangent kernel and constant weights that know no step and no path. The "
            "weights of gradient flow with the ridge added to every eigenvalue give another c."
        ),
        quick=TrainedEnsembles(_TANH[1:2], (64, 256), 6000, 24_000, 1, SEEN),
        full=TrainedEnsembles(_TANH, _WIDTHS, (13_000, 8000, 18_000), 60_000, 2, 0.05),
    ),
    MEAN.claim(
        1.5,
        _nothing,
        _NAIVE_MEAN,
        source=_SOURCE,
        id="trained-mean-ridge-depth-3",
        title="the same for GELU networks with two hidden layers",
        statement=(
            "The coefficient of 1/n in the mean of networks trained with a ridge is predicted for GELU and "
            "depth 3, where the mean kernel shifts too."
        ),
        # A constant, not a line in 1/n: so few pairs could not tell extrapolations apart. The full scale can.
        quick=TrainedEnsembles(_DEEP_GELU[:1], (128, 256), 600, 20_000, 0, SEEN),
        full=TrainedEnsembles(_DEEP_GELU, _WIDTHS[1:], (2000, 1000, 1000), 400_000, 1, 0.05),
    ),
    MEAN.claim(
        2.0,
        _nothing,
        _NAIVE_MEAN,
        source=_SOURCE,
        id="trained-mean-ridge-outputs",
        title="the same for two coupled outputs, at the end of training and before it",
        statement=(
            "With two outputs, which are coupled at this order, networks trained with a ridge move by the "
            "predicted multiple of 1/n, after eight steps and at the end."
        ),
        quick=TrainedEnsembles(_TWO_OUTPUTS[:1], (64, 256), 6000, 24_000, 1, SEEN),
        full=TrainedEnsembles(_TWO_OUTPUTS, _WIDTHS, (10_000, 36_000), 100_000, 2, 0.05),
    ),
    COVARIANCE.claim(
        1.5,
        _nothing,
        _NAIVE_VARIANCE,
        source=_SOURCE,
        id="trained-variance-ridge",
        title="with a ridge the variance between networks grows by a predicted multiple of 1/n",
        statement=(
            "The variance of networks trained with a ridge differs from infinite width by a predicted "
            "multiple of 1/n; the weights of gradient flow with shifted eigenvalues give another one."
        ),
        quick=TrainedEnsembles(_SPREAD[1:2], (64, 256), 6000, 24_000, 1, SEEN),
        full=TrainedEnsembles(_SPREAD, _WIDTHS, (10_000, 12_000, 24_000), 100_000, 2, 0.05),
    ),
)
