"""What training does to a function: algorithms as filters on the spectrum of a kernel."""

from finitewidth.dynamics.algorithms import (
    DirectOptimization,
    GradientDescent,
    GradientFlow,
    SpectralAlgorithm,
    check_algorithm,
)
from finitewidth.dynamics.clocks import Clock, Flow, Steps
from finitewidth.dynamics.kernel_descent import SpectralFilter, Spectrum, smoother, training_filter
from finitewidth.dynamics.ridge import RidgeFit, ridge_regression

__all__ = [
    "Clock", "DirectOptimization", "Flow", "GradientDescent", "GradientFlow", "RidgeFit", "SpectralAlgorithm",
    "SpectralFilter", "Spectrum", "Steps", "check_algorithm", "ridge_regression", "smoother",
    "training_filter",
]  # fmt: skip
