"""How networks are trained, as objects: settings that experiments read, and filters on a spectrum."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.algorithms.clocks import Clock, Flow, Steps
    from finitewidth.algorithms.direct_optimization import DirectOptimization, direct_coefficient
    from finitewidth.algorithms.gradient_descent import GradientDescent, inverting
    from finitewidth.algorithms.gradient_flow import GradientFlow
    from finitewidth.algorithms.interface import SpectralAlgorithm, check_algorithm
    from finitewidth.algorithms.kernel_descent import SpectralFilter, Spectrum, smoother, training_filter

__all__, __getattr__ = exports(__name__, __file__)
