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
from finitewidth.dynamics.rescaling import balance_change, equivariant_rates
from finitewidth.dynamics.ridge import RidgeFit, ridge_regression
from finitewidth.dynamics.steepest_descent import (
    SteepestStep,
    newton_schulz_steps,
    newton_schulz_values,
    steepest_step,
)

__all__ = [
    "CatapultPath", "CatapultPhases", "Clock", "DirectOptimization", "Flow", "FunctionSpaceTraining",
    "GradientDescent", "GradientFlow", "ImportanceEffect", "OnePointNetwork", "Phase", "QuadraticPhases",
    "ReluCatapult", "RidgeFit", "SpectralAlgorithm", "SpectralFilter", "Spectrum", "SteepestStep", "Steps",
    "balance_change", "check_algorithm", "equivariant_rates", "importance_effect", "newton_schulz_steps",
    "newton_schulz_values", "quadratic_phases", "relu_catapult", "ridge_regression", "smoother",
    "steepest_step", "train_in_function_space", "training_filter",
]  # fmt: skip
