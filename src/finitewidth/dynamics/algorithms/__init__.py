"""Learning algorithms, one a file; `SpectralAlgorithm` says what an algorithm may offer."""

from finitewidth.dynamics.algorithms.direct_optimization import DirectOptimization, direct_coefficient
from finitewidth.dynamics.algorithms.gradient_descent import GradientDescent, inverting
from finitewidth.dynamics.algorithms.gradient_flow import GradientFlow
from finitewidth.dynamics.algorithms.interface import SpectralAlgorithm, check_algorithm

__all__ = [
    "DirectOptimization", "GradientDescent", "GradientFlow", "SpectralAlgorithm", "check_algorithm",
    "direct_coefficient", "inverting",
]  # fmt: skip
