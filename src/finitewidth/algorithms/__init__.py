"""What training does to a function: algorithms as filters on the spectrum of a kernel."""

from finitewidth.algorithms.clocks import Clock, Flow, Steps
from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.algorithms.interface import SpectralAlgorithm, check_algorithm
from finitewidth.algorithms.kernel_descent import SpectralFilter, Spectrum, smoother, training_filter

__all__ = [
    "Clock", "DirectOptimization", "Flow",
    "GradientDescent", "GradientFlow",


    "SpectralAlgorithm", "SpectralFilter", "Spectrum", "Steps",
    "check_algorithm",





    "smoother",
    "training_filter",

]  # fmt: skip


from finitewidth._base.lazy import moved_names

__getattr__ = moved_names(__name__)
