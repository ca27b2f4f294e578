"""Scikit-learn estimators: infinitely wide networks, trained or Bayesian, and nearly-kernel machines."""

from finitewidth.prediction.estimators.nearly_kernel_regressor import NearlyKernelRegressor
from finitewidth.prediction.estimators.wide_network import (
    NNGPClassifier,
    NNGPRegressor,
    NTKClassifier,
    NTKRegressor,
)

__all__ = ["NNGPClassifier", "NNGPRegressor", "NTKClassifier", "NTKRegressor", "NearlyKernelRegressor"]
