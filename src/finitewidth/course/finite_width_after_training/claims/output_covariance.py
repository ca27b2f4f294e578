"""Trained networks of finite width: their covariance, too, moves by a predicted multiple of 1/width."""

import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.layer import Layer
from finitewidth.course._lab.estimate import Estimate
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course.finite_width_after_training.claims._shared import SEEN, Case, Moment, TrainedEnsembles
from finitewidth.course.finite_width_after_training.networks.trained_moments import (
    Ensemble,
    trained_covariance,
)
from finitewidth.prediction.predict import predict

_SOURCE = f"{BEYOND}: {BOOK}, chapters 8, 11 and infinity"


def _predicted(case: Case) -> tuple[np.ndarray, np.ndarray]:
    """Entries of the symmetric matrix, each once."""
    n = 4096  # the coefficient does not depend on it; a wide network gives no warning
    law = predict(case.network(n), *case.data(), GradientDescent(case.eta), order=1)
    once, correction = np.triu_indices(len(case.test)), np.asarray(law.covariance_correction)
    return (np.asarray(law.covariance) - correction)[once], n * correction[once]


def _observed(case: Case, net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Estimate:
    return trained_covariance(net, ensemble, key)[:, 0, :, 0][np.triu_indices(len(case.test))]


def _labels(case: Case) -> list[str]:
    pairs = zip(*np.triu_indices(len(case.test)), strict=True)
    return [f"variance at point {a + 1}" if a == b else "covariance of both" for a, b in pairs]


COVARIANCE = Moment("covariance", "Cov", _predicted, _observed, _labels)
_SHALLOW = Case("tanh", 2, 0.5, 30, test=(20, 49))
_DEEP = Case("tanh", 3, 0.3, 40, test=(20, 49))

CLAIMS = (
    COVARIANCE.claim(
        1.5,
        id="trained-covariance-width",
        title="finite width changes the trained covariance by a predicted multiple of 1/n",
        statement="""The covariance of trained networks over initialisations differs from that of infinite
        width by a predicted multiple of 1/n, from the fluctuations of the tangent kernel, their correlation
        with the start, and the kernel's changes in training.""",
        source=_SOURCE,
        quick=TrainedEnsembles((_SHALLOW,), (64, 128), 2000, 8000, 1, SEEN),
        full=TrainedEnsembles((_SHALLOW,), (64, 128, 256, 512), 12_000, 48_000, 2, 0.1),
    ),
    COVARIANCE.claim(
        2.0,
        id="trained-covariance-depth-3",
        title="the same for two hidden layers, where both mean kernels shift too",
        statement="""The coefficient of 1/n in the trained covariance is predicted for depth 3, where the
        covariance of the start and the mean of the tangent kernel depend on the width.""",
        source=_SOURCE,
        quick=TrainedEnsembles((_DEEP,), (64, 128), 1500, 60_000, 1, SEEN),
        full=TrainedEnsembles((_DEEP,), (64, 128, 256, 512), 3000, 600_000, 1, 0.1),
    ),
)
