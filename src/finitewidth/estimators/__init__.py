"""Scikit-learn estimators: infinitely wide networks, deep linear networks, nearly-kernel machines."""

from finitewidth.estimators.deep_linear_regressor import DeepLinearRegressor
from finitewidth.estimators.nearly_kernel_regressor import NearlyKernelRegressor
from finitewidth.estimators.wide_network import NNGPClassifier, NNGPRegressor, NTKClassifier, NTKRegressor

__all__ = [
    "DeepLinearRegressor",
    "NNGPClassifier",
    "NNGPRegressor",
    "NTKClassifier",
    "NTKRegressor",
    "NearlyKernelRegressor",
]
