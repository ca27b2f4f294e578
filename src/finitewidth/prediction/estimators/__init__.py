"""Scikit-learn estimators: infinitely wide networks, deep linear networks, nearly-kernel machines."""

from finitewidth.prediction.estimators.deep_linear_regressor import DeepLinearRegressor
from finitewidth.prediction.estimators.nearly_kernel_regressor import NearlyKernelRegressor
from finitewidth.prediction.estimators.wide_network import (
    NNGPClassifier,
    NNGPRegressor,
    NTKClassifier,
    NTKRegressor,
)

__all__ = [
    "DeepLinearRegressor",
    "NNGPClassifier",
    "NNGPRegressor",
    "NTKClassifier",
    "NTKRegressor",
    "NearlyKernelRegressor",
]
