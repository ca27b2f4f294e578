"""`DenseTensors`: the corrections of a handful of points, by quadrature."""

import equinox as eqx
import numpy as np
from jaxtyping import Array

from finitewidth._base.checks import is_number, plain
from finitewidth._base.either import einsum
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.prediction.law.correction import Correction, Origins
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.methods import Method, Progress
from finitewidth.prediction.methods.first_order.coefficients import Coefficients, Expansion
from finitewidth.prediction.methods.first_order.dense.covariance import dense_covariance
from finitewidth.prediction.methods.first_order.dense.mean import dense_mean
from finitewidth.prediction.methods.first_order.kernel_variance import dense_kernel_variance
from finitewidth.prediction.problem.training_problem import TrainingProblem
from finitewidth.statistics.first_order.corrections import dense_corrections

# Labels (output, point) of the covariance's tensors, which have four of them.
_MOST_LABELS = 40


class DenseTensors(Method):
    """All tensors by quadrature, for a handful of points, training and test together.

    Parameters
    ----------
    tolerance
        Relative accuracy of the averages over one neuron; the coefficient then has some six digits.
    """

    tolerance: float = eqx.field(static=True, converter=plain, default=1e-7)

    followed = True

    def __check_init__(self):
        if not (is_number(self.tolerance) and self.tolerance > 0):
            raise ValueError(f"tolerance must be a positive number, got {self.tolerance!r}.")

    def correct(
        self,
        problem: TrainingProblem,
        algorithm: SpectralAlgorithm,
        infinite: TrainedDistribution,
        *,
        ridge: float | Array = 0.0,
        progress: Progress | None = None,
    ) -> Correction:
        expansion = Expansion.of(problem, algorithm, ridge)
        tensors = dense_corrections(expansion.net, expansion.x, tolerance=self.tolerance)
        modes = expansion.modes(tensors.K, tensors.Theta, algorithm, ridge)
        origins = dense_mean(tensors, modes)
        exact = Origins(*(np.zeros(o.shape) for o in origins))
        found = Coefficients(origins, exact, exact.total, dense_kernel_variance(tensors, modes))
        if modes.K.shape[0] * modes.Y.shape[1] <= _MOST_LABELS:
            outputs = dense_covariance(tensors, modes)
            own = einsum("aobo->ab", outputs) / outputs.shape[1]
            found = found._replace(
                covariance=own, covariance_error=np.zeros(own.shape), output_covariance=outputs
            )
        return found.over_width(expansion.net.hidden, infinite)
