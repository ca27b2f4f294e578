"""Direct optimisation: the labels are solved for, without a trajectory."""

from typing import Literal

import equinox as eqx

from finitewidth._base.checks import is_number, plain
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm

_SOLUTIONS = ("row-space", "gauss-newton", "minimum-norm")


class DirectOptimization(SpectralAlgorithm):
    r"""Solve for the labels outright, no trajectory: on a linear model the weights of least norm.

    On a nonlinear model with more weights than labels the answer depends on what is meant by it. To first
    order in the nonlinearity three natural meanings differ.

    Parameters
    ----------
    solution
        "row-space" keeps the weights in the span of the training features of the start; "gauss-newton"
        iterates the least change of the weights that solves the linearised problem; "minimum-norm" takes
        the smallest weights of all that reach the labels.
    step
        Fraction of every Gauss-Newton step that is taken, between 0, a flow, and 1.
    """

    solution: Literal["row-space", "gauss-newton", "minimum-norm"] = eqx.field(
        static=True, default="row-space"
    )
    step: float | int = eqx.field(static=True, converter=plain, default=1.0)

    def __check_init__(self):
        if self.solution not in _SOLUTIONS:
            raise ValueError(f"solution must be one of {', '.join(_SOLUTIONS)}, got {self.solution!r}.")
        if not (is_number(self.step) and 0 <= self.step <= 1):
            raise ValueError(f"step must be a fraction between 0 and 1, got {self.step!r}.")
        if self.step != 1 and self.solution != "gauss-newton":
            raise ValueError(f'step={self.step} is for solution="gauss-newton", not {self.solution!r}.')

    @property
    def converged(self) -> bool:
        return True

    def residual(self, eigenvalues):
        return eigenvalues.__array_namespace__().where(eigenvalues > 0, 0.0, 1.0)

    def gain(self, eigenvalues):
        return 1 / eigenvalues

    def projectors(self, l1, l2):
        both = 1 / (l1 * l2)
        return direct_coefficient(self) * both, both / 2

    def second_order(self) -> Literal["row-space", "gauss-newton"]:
        if self.solution == "minimum-norm" or self.step != 1:
            raise ValueError(
                "the second order in epsilon is known for full steps in the row space or of Gauss-Newton, "
                f"got {self!r}."
            )
        return self.solution

    def descent(self, largest: float) -> GradientDescent:
        return GradientDescent().resolved(largest)


def direct_coefficient(algorithm: DirectOptimization) -> float:
    r"""$Z_A$ in units of $1/(\lambda_1\lambda_2)$: how far the weights leave the span of the features."""
    if algorithm.solution == "minimum-norm":
        return 1.0
    return (1 - algorithm.step) / (2 - algorithm.step) if algorithm.solution == "gauss-newton" else 0.0
