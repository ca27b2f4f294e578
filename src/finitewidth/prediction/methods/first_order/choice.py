"""Which method computes a correction when the user names none."""

import equinox as eqx
from jaxtyping import Array

from finitewidth._base.either import refuse_traced
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.prediction.law.correction import Correction
from finitewidth.prediction.law.distribution import TrainedDistribution
from finitewidth.prediction.law.methods import Method, Progress
from finitewidth.prediction.methods.first_order.dense.method import DenseTensors
from finitewidth.prediction.methods.first_order.sampled.method import SampledNeurons
from finitewidth.prediction.problem.training_problem import TrainingProblem

# Dense tensors of more points take longer than sampling does.
FEW_POINTS = 14


class ByNumberOfPoints(Method):
    """Dense tensors for a handful of points, training and test together, otherwise sampled neurons.

    Parameters
    ----------
    sampled
        How many points are treated.
    """

    sampled: SampledNeurons = eqx.field(default_factory=SampledNeurons)

    def method_for(self, problem: TrainingProblem) -> Method:
        """The method that does the work."""
        few = len(problem.x_train) + len(problem.x_test) <= FEW_POINTS
        return DenseTensors() if few else self.sampled

    def correct(
        self,
        problem: TrainingProblem,
        algorithm: SpectralAlgorithm,
        infinite: TrainedDistribution,
        *,
        ridge: float | Array = 0.0,
        progress: Progress | None = None,
    ) -> Correction:
        method = self.method_for(problem)
        if not isinstance(method, DenseTensors):
            refuse_traced(f"order=1 of more than {FEW_POINTS} points", problem, algorithm, ridge, infinite)
        return method.correct(problem, algorithm, infinite, ridge=ridge, progress=progress)
