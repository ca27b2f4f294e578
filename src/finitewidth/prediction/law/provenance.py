"""Where a predicted law comes from: enough to train the networks that it describes."""

import equinox as eqx

from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.prediction.law.methods import BayesianInference, Method
from finitewidth.prediction.problem.training_problem import TrainingProblem


class Provenance(eqx.Module):
    """The problem that a law solves, and how.

    `random_start` says whether networks start as they are drawn rather than at a given function; `method` is
    how corrections are computed.
    """

    problem: TrainingProblem
    algorithm: SpectralAlgorithm | BayesianInference
    order: int | str = eqx.field(static=True)
    ridge: float = eqx.field(static=True, converter=float)
    random_start: bool = eqx.field(static=True)
    method: Method | None = None
