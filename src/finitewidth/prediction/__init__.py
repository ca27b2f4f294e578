"""p(f*): the distribution of trained networks."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.prediction.deep_linear.effective_depth import (
        effective_depth,
        limiting_prior_variance,
        posterior_scale,
        posterior_scale_of_depth,
    )
    from finitewidth.prediction.deep_linear.interpolation import LinearInterpolation, interpolate
    from finitewidth.prediction.deep_linear.noisy import NoisyLinearPosterior, noisy_posterior
    from finitewidth.prediction.deep_linear.selection import (
        PriorChoice,
        best_prior_variance,
        compare_linear_networks,
    )
    from finitewidth.prediction.distribution import TrainedDistribution
    from finitewidth.prediction.estimators.deep_linear_regressor import DeepLinearRegressor
    from finitewidth.prediction.estimators.nearly_kernel_regressor import NearlyKernelRegressor
    from finitewidth.prediction.finite_width.correction import Correction, Origins
    from finitewidth.prediction.finite_width.dense.method import DenseTensors
    from finitewidth.prediction.finite_width.expansion_range import ExpansionRange
    from finitewidth.prediction.finite_width.kinks.kink_range import KinkRange
    from finitewidth.prediction.finite_width.kinks.method import KinkWindows
    from finitewidth.prediction.finite_width.mean_field.method import MeanField
    from finitewidth.prediction.finite_width.sampled.method import SampledNeurons
    from finitewidth.prediction.finite_width.trusted_range import TrustedRange
    from finitewidth.prediction.gpjax_kernel import gpjax_kernel
    from finitewidth.prediction.infinite_width.curves import LossCurves, loss_curves
    from finitewidth.prediction.infinite_width.given_kernels import predict_from_kernels
    from finitewidth.prediction.infinite_width.posterior import evidence
    from finitewidth.prediction.methods import BayesianInference, Method
    from finitewidth.prediction.selection.certificates import (
        ConvergenceCertificate,
        LazyTraining,
        convergence_certificate,
        steps_to_loss,
    )
    from finitewidth.prediction.selection.concentration import kernel_concentration
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
    from finitewidth.prediction.selection.ridge import RidgeChoice, choose_noise, choose_ridge
    from finitewidth.prediction.training_problem import TrainingProblem

__all__, __getattr__ = exports(__name__, __file__)
