"""p(f*): the distribution of trained networks."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.prediction.function_space import FunctionSpaceTraining, train_in_function_space
    from finitewidth.prediction.law.correction import Correction, Origins
    from finitewidth.prediction.law.distribution import TrainedDistribution
    from finitewidth.prediction.law.expansion_range import ExpansionRange
    from finitewidth.prediction.law.kink_range import KinkRange
    from finitewidth.prediction.law.large_law import LargeLaw, SolveReport
    from finitewidth.prediction.law.methods import BayesianInference, Method
    from finitewidth.prediction.law.trusted_range import TrustedRange
    from finitewidth.prediction.methods.bayesian.deep_linear.effective_depth import (
        effective_depth,
        limiting_prior_variance,
        posterior_scale,
        posterior_scale_of_depth,
    )
    from finitewidth.prediction.methods.bayesian.deep_linear.interpolation import (
        LinearInterpolation,
        interpolate,
    )
    from finitewidth.prediction.methods.bayesian.deep_linear.noisy import (
        NoisyLinearPosterior,
        noisy_posterior,
    )
    from finitewidth.prediction.methods.bayesian.posterior import evidence
    from finitewidth.prediction.methods.first_order.dense.method import DenseTensors
    from finitewidth.prediction.methods.first_order.sampled.method import SampledNeurons
    from finitewidth.prediction.methods.infinite_width.curves import LossCurves, loss_curves
    from finitewidth.prediction.methods.infinite_width.given_kernels import predict_from_kernels
    from finitewidth.prediction.methods.infinite_width.ridge import RidgeChoice, choose_noise, choose_ridge
    from finitewidth.prediction.methods.kinks.method import KinkWindows
    from finitewidth.prediction.methods.mean_field.method import MeanField
    from finitewidth.prediction.predict import predict
    from finitewidth.prediction.problem.training_problem import TrainingProblem
    from finitewidth.prediction.selection.certificates import (
        ConvergenceCertificate,
        LazyTraining,
        convergence_certificate,
        steps_to_loss,
    )
    from finitewidth.prediction.selection.concentration import kernel_concentration
    from finitewidth.prediction.selection.deep_linear import (
        PriorChoice,
        best_prior_variance,
        compare_linear_networks,
    )
    from finitewidth.prediction.selection.learning_curves import (
        LearningCurve,
        learning_curve,
        predicted_learning_curve,
    )
    from finitewidth.prediction.selection.model_comparison import (
        ModelComparison,
        TunedPrior,
        compare_models,
        evidence_gradient,
        maximise_evidence,
    )

__all__, __getattr__ = exports(__name__, __file__)
