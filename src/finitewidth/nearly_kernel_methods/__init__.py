"""Trained quadratic models from kernels and meta kernels, without features or weights."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.nearly_kernel_methods.algorithm_projectors import Projectors, pair_projectors, projectors
    from finitewidth.nearly_kernel_methods.model_prediction import nearly_kernel_machine
    from finitewidth.nearly_kernel_methods.prediction import NearlyKernel, nearly_kernel
    from finitewidth.nearly_kernel_methods.representation import (
        BestEpsilon,
        Deformation,
        best_epsilon,
        deformation,
        scan_epsilon,
        trained_kernel,
        weight_norms,
    )

__all__, __getattr__ = exports(__name__, __file__)
