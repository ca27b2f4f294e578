"""Trained quadratic models from kernels and meta kernels, without features or weights."""

from finitewidth.nearly_kernel_methods.algorithm_projectors import Projectors, pair_projectors, projectors
from finitewidth.nearly_kernel_methods.dual import DualTrajectory, dual_descent
from finitewidth.nearly_kernel_methods.first_order_flow import FirstOrderFlow, FlowWeights
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
    "BestEpsilon", "Deformation", "DualTrajectory", "FirstOrderFlow", "FlowWeights", "NearlyKernel",
    "Projectors", "best_epsilon", "deformation", "dual_descent", "nearly_kernel", "nearly_kernel_machine",
    "pair_projectors", "projectors", "scan_epsilon", "trained_kernel", "weight_norms",
]  # fmt: skip
