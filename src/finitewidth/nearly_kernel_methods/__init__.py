"""Trained quadratic models from kernels and meta kernels, without features or weights."""

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

__all__ = [
    "BestEpsilon", "Deformation", "NearlyKernel",
    "Projectors", "best_epsilon", "deformation", "nearly_kernel", "nearly_kernel_machine",
    "pair_projectors", "projectors", "scan_epsilon", "trained_kernel", "weight_norms",
]  # fmt: skip


from finitewidth._base.lazy import moved_names

__getattr__ = moved_names(__name__)
