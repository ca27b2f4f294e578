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
from finitewidth.dynamics.kernel_descent import SpectralFilter, Spectrum, smoother, training_filter
from finitewidth.dynamics.ridge import RidgeFit, ridge_regression

__all__ = [
    "CatapultPath", "CatapultPhases", "Clock", "DirectOptimization", "Flow", "FunctionSpaceTraining",
    "GradientDescent", "GradientFlow", "OnePointNetwork", "Phase", "QuadraticPhases", "ReluCatapult",
    "RidgeFit", "SpectralAlgorithm", "SpectralFilter", "Spectrum", "Steps", "check_algorithm",
    "quadratic_phases", "relu_catapult", "ridge_regression", "smoother", "train_in_function_space",
    "training_filter",
]  # fmt: skip
