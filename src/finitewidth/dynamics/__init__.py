"""What training does to a function: algorithms as filters on the spectrum of a kernel."""

from finitewidth.dynamics.algorithms import (
    DirectOptimization,
    GradientDescent,
    GradientFlow,
    SpectralAlgorithm,
    check_algorithm,
)
from finitewidth.dynamics.catapult import CatapultPath, CatapultPhases, OnePointNetwork, Phase
from finitewidth.dynamics.catapult_quadratic import QuadraticPhases, quadratic_phases
from finitewidth.dynamics.catapult_relu import ReluCatapult, relu_catapult
from finitewidth.dynamics.clocks import Clock, Flow, Steps
from finitewidth.dynamics.function_space import FunctionSpaceTraining, train_in_function_space
from finitewidth.dynamics.importance_weights import ImportanceEffect, importance_effect
from finitewidth.dynamics.kernel_descent import SpectralFilter, Spectrum, smoother, training_filter
from finitewidth.dynamics.neuron_measures.fluctuations import MeanFieldFluctuations, mean_field_fluctuations
from finitewidth.dynamics.neuron_measures.population import (
    NeuronPopulation,
    PopulationPath,
    infinite_population,
    neuron_population,
    sampled_population,
)
from finitewidth.dynamics.neuron_measures.transport import (
    MinimisingMovement,
    Transport,
    minimising_movement,
    potential_curvature,
    wasserstein,
)
from finitewidth.dynamics.rescaling import balance_change, equivariant_rates
from finitewidth.dynamics.ridge import RidgeFit, ridge_regression
from finitewidth.dynamics.steepest_descent import (
    SteepestStep,
    newton_schulz_steps,
    newton_schulz_values,
    steepest_step,
)
from finitewidth.dynamics.stochastic.batches import BatchFactors, batch_covariance, batch_factors
from finitewidth.dynamics.stochastic.diffusion import (
    LineDensity,
    ito_density,
    ring_walk,
    step_density,
    two_step_share,
)
from finitewidth.dynamics.stochastic.label_noise import LabelNoisePath, label_noise_path, label_noise_penalty
from finitewidth.dynamics.stochastic.least_squares import (
    LeastSquaresSteadyState,
    least_squares_steady_state,
    sgd_step_limit,
)
from finitewidth.dynamics.stochastic.schedules import (
    NoisyDescent,
    best_schedule,
    late_variance,
    noise_bound,
    noisy_descent,
    variance_floor,
)
from finitewidth.dynamics.stochastic.steady_state import pass_covariance, steady_covariance
from finitewidth.dynamics.stochastic.valleys import entropic_drift, valley_drift, valley_variance

__all__ = [
    "BatchFactors", "CatapultPath", "CatapultPhases", "Clock", "DirectOptimization", "Flow",
    "FunctionSpaceTraining", "GradientDescent", "GradientFlow", "ImportanceEffect", "LabelNoisePath",
    "LeastSquaresSteadyState", "LineDensity", "MeanFieldFluctuations", "MinimisingMovement",
    "NeuronPopulation", "NoisyDescent", "OnePointNetwork", "Phase", "PopulationPath", "QuadraticPhases",
    "ReluCatapult", "RidgeFit", "SpectralAlgorithm", "SpectralFilter", "Spectrum", "SteepestStep", "Steps",
    "Transport", "balance_change", "batch_covariance", "batch_factors", "best_schedule", "check_algorithm",
    "entropic_drift", "equivariant_rates", "importance_effect", "infinite_population", "ito_density",
    "label_noise_path", "label_noise_penalty", "late_variance", "least_squares_steady_state",
    "mean_field_fluctuations", "minimising_movement", "neuron_population", "newton_schulz_steps",
    "newton_schulz_values", "noise_bound", "noisy_descent", "pass_covariance", "potential_curvature",
    "quadratic_phases", "relu_catapult", "ridge_regression", "ring_walk", "sampled_population",
    "sgd_step_limit", "smoother", "steady_covariance", "steepest_step", "step_density",
    "train_in_function_space", "training_filter", "two_step_share", "valley_drift", "valley_variance",
    "variance_floor", "wasserstein",
]  # fmt: skip
