"""p(f*): the distribution of trained networks."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.prediction.bayesian import evidence
    from finitewidth.prediction.certificates import (
        ConvergenceCertificate,
        LazyTraining,
        convergence_certificate,
        steps_to_loss,
    )
    from finitewidth.prediction.concentration import kernel_concentration
    from finitewidth.prediction.curves import LossCurves, loss_curves
    from finitewidth.prediction.distribution import FirstOrder, Origins, TrainedDistribution
    from finitewidth.prediction.expansion_range import ExpansionRange
    from finitewidth.prediction.learning_curves import LearningCurve, learning_curve, predicted_learning_curve
    from finitewidth.prediction.methods import BayesianInference, DenseTensors, SampledNeurons
    from finitewidth.prediction.model_comparison import (
        ModelComparison,
        TunedPrior,
        compare_models,
        evidence_gradient,
        maximise_evidence,
    )
    from finitewidth.prediction.nearly_kernel_regressor import NearlyKernelRegressor
    from finitewidth.prediction.ridge_selection import RidgeChoice, choose_noise, choose_ridge
    from finitewidth.prediction.training_problem import TrainingProblem

__all__, __getattr__ = exports(__name__, __file__)
