"""Scikit-learn estimators: infinitely wide networks, deep linear networks, nearly-kernel machines."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.estimators.deep_linear_regressor import DeepLinearRegressor
    from finitewidth.estimators.gpjax_kernel import gpjax_kernel
    from finitewidth.estimators.nearly_kernel_regressor import NearlyKernelRegressor
    from finitewidth.estimators.wide_network import NNGPClassifier, NNGPRegressor, NTKClassifier, NTKRegressor

__all__, __getattr__ = exports(__name__, __file__)
