"""Trained networks of finite width: the mean moves by a predicted multiple of 1/width."""

import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.layer import Layer
from finitewidth.course._lab.estimate import Estimate
from finitewidth.course._lab.sources import BEYOND, BOOK
from finitewidth.course.finite_width_after_training.claims._shared import SEEN, Case, Moment, TrainedEnsembles
from finitewidth.course.finite_width_after_training.networks.trained_moments import Ensemble, trained_mean
from finitewidth.prediction.predict import predict

_SOURCE = f"{BEYOND}: {BOOK}, chapters 11 and infinity"


def _predicted(case: Case) -> tuple[np.ndarray, np.ndarray]:
    algorithm = GradientDescent(case.eta, case.steps) if case.stopped else GradientDescent(case.eta)
    n = 4096  # the coefficient does not depend on it; a wide network gives no warning
    law = predict(case.network(n), *case.data(), algorithm, order=1)
    correction = np.asarray(law.mean_correction).ravel()
    return np.asarray(law.mean).ravel() - correction, n * correction


def _observed(case: Case, net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Estimate:
    return trained_mean(net, ensemble, key).reshape(-1)


def _labels(case: Case) -> list[str]:
    outputs = [f", output {o + 1}" for o in range(case.outputs)] if case.outputs > 1 else [""]
    return [case.training + output for output in outputs]


MEAN = Moment("mean", "mean", _predicted, _observed, _labels)
_WIDTHS = (64, 128, 256, 512)
_TANH = (Case("tanh", 2, 0.2, 70), Case("tanh", 2, 0.5, 30))
_GELU = (Case("gelu", 2, 0.1, 75, (33, 38, 11), (34,)), Case("gelu", 2, 0.28, 24, (33, 38, 11), (34,)))
_DEEP = (Case("tanh", 3, 0.3, 40),)
_STOPPED = (Case("tanh", 2, 0.15, 8, outputs=2, stopped=True), Case("tanh", 2, 0.5, 30, outputs=2))

CLAIMS = (
    MEAN.claim(
        1.5,
        id="trained-mean-width",
        title="finite width shifts the trained mean by a predicted multiple of 1/n that depends on the step",
        statement="""Averaged over initialisations, networks trained to the end by gradient descent differ
        from the infinite-width limit by c/n + O(1/n^2), with c from the mean, the fluctuations and the
        changes of the tangent kernel; c depends on the learning rate. At width 64 c/n removes at least two
        thirds of the difference.""",
        source=_SOURCE,
        quick=TrainedEnsembles(_TANH[1:], (64, 256), 3000, 12_000, 1, SEEN, closer=True),
        full=TrainedEnsembles(_TANH, _WIDTHS, 8000, 32_000, 2, 0.05, closer=True),
    ),
    MEAN.claim(
        1.5,
        id="trained-mean-gelu",
        title="the same for GELU networks",
        statement="""The coefficient of 1/n in the trained mean, and its change with the learning rate,
        are predicted for GELU networks as well. At width 64 c/n removes at least two thirds of the
        difference.""",
        source=_SOURCE,
        quick=TrainedEnsembles(_GELU[1:], (64, 256), 4000, 16_000, 1, SEEN, closer=True),
        full=TrainedEnsembles(_GELU, _WIDTHS, 8000, 32_000, 2, 0.05, closer=True),
    ),
    MEAN.claim(
        2.0,
        id="trained-mean-depth-3",
        title="the same for two hidden layers, where the mean kernel shifts too",
        statement="""The coefficient of 1/n in the trained mean is predicted for depth 3. At width 64 c/n
        removes at least two thirds of the difference.""",
        source=_SOURCE,
        quick=TrainedEnsembles(_DEEP, (64, 128), 800, 8000, 1, SEEN, closer=True),
        full=TrainedEnsembles(_DEEP, _WIDTHS, 3000, 300_000, 2, 0.1, closer=True),
    ),
    MEAN.claim(
        1.5,
        id="trained-mean-stopped",
        title="the same for two coupled outputs, before the end of training and at it",
        statement="""After any number of steps, and with several outputs, the trained mean moves by a
        predicted multiple of 1/n; the outputs are coupled at this order.""",
        source=_SOURCE,
        quick=TrainedEnsembles(_STOPPED[:1], (64, 256), 10_000, 40_000, 1, SEEN),
        full=TrainedEnsembles(_STOPPED, _WIDTHS, 16_000, 64_000, 2, 0.05),
    ),
)
