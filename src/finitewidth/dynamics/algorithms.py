r"""Learning algorithms, as filters on the spectrum of the training kernel.

On a linear model each eigenmode of the kernel is learnt by itself. An algorithm is the fraction
$r(\lambda)$ of the residual that it leaves in a mode with eigenvalue $\lambda$; what it has learnt, per
unit of kernel, is the gain $(1-r(\lambda))/\lambda$.
"""

import math
from abc import abstractmethod
from typing import Literal

import equinox as eqx
from jaxtyping import Float

from finitewidth.arrays import AnyArray
from finitewidth.checks import is_number, plain

_SOLUTIONS = ("row-space", "gauss-newton", "minimum-norm")


class SpectralAlgorithm(eqx.Module):
    """A training algorithm that acts on each eigenmode of the kernel separately."""

    @property
    @abstractmethod
    def converged(self) -> bool:
        """Whether it runs until nothing of the residual is left."""

    @abstractmethod
    def resolved(self, largest: float) -> "SpectralAlgorithm":
        """The same algorithm with every choice made, given the largest eigenvalue."""

    @abstractmethod
    def stopped(self, at: float | int) -> "SpectralAlgorithm":
        """The same algorithm after a number of steps, or at a time."""

    @abstractmethod
    def residual(self, eigenvalues: Float[AnyArray, " n"]) -> Float[AnyArray, " n"]:
        """Fraction of the residual that is left in each mode; NumPy arrays are answered by NumPy."""

    @abstractmethod
    def gain(self, eigenvalues: Float[AnyArray, " n"]) -> Float[AnyArray, " n"]:
        """(1 - residual) / eigenvalue, with its limit at zero eigenvalues; NumPy arrays stay NumPy arrays."""


def check_algorithm(algorithm: object, *others: str) -> None:
    """Refuse what is not an algorithm of this module; `others` are further ones to name."""
    if not isinstance(algorithm, SpectralAlgorithm):
        known = ["GradientDescent()", "GradientFlow()", "DirectOptimization()", *others]
        raise ValueError(f"algorithm must be {', '.join(known[:-1])} or {known[-1]}, got {algorithm!r}.")


class GradientDescent(SpectralAlgorithm):
    """Full-batch gradient descent on half the sum of squared errors.

    Parameters
    ----------
    eta
        Global step; "auto" takes half the largest stable one, 1 / lambda_max.
    steps
        Number of steps; infinity runs to the end of training.
    """

    eta: float | int | Literal["auto"] = eqx.field(static=True, converter=plain, default="auto")
    steps: float | int = eqx.field(static=True, converter=plain, default=math.inf)

    def __check_init__(self):
        if self.eta != "auto" and not (is_number(self.eta) and 0 < self.eta < math.inf):
            raise ValueError(f'eta must be "auto" or a positive number, got {self.eta!r}.')
        if not (is_number(self.steps) and self.steps >= 0) or (
            math.isfinite(self.steps) and self.steps != int(self.steps)
        ):
            raise ValueError(f"steps must be a whole number, zero or more, or infinity, got {self.steps!r}.")

    @property
    def converged(self) -> bool:
        return math.isinf(self.steps)

    def resolved(self, largest: float) -> "GradientDescent":
        limit = 2 / largest
        if self.eta == "auto":
            return GradientDescent(limit / 2, self.steps)
        if self.eta >= limit:
            raise ValueError(
                f"eta={self.eta:.4g} is not below 2/lambda_max={limit:.4g}: gradient descent diverges on "
                'this data. Lower it, or use eta="auto".'
            )
        return self

    def stopped(self, at: float | int) -> "GradientDescent":
        return GradientDescent(self.eta, at)

    def residual(self, eigenvalues):
        numpy = eigenvalues.__array_namespace__()
        factor = 1 - self._step() * eigenvalues
        if self.converged:
            return numpy.where(factor < 1, 0.0, 1.0)
        sign = numpy.where((factor < 0) & (self.steps % 2 == 1), -1.0, 1.0)
        # An array as exponent: for a Python number every other number of steps would be compiled anew.
        return sign * numpy.abs(factor) ** numpy.asarray(self.steps, dtype=factor.dtype)

    def gain(self, eigenvalues):
        if self.converged:
            return 1 / eigenvalues
        numpy = eigenvalues.__array_namespace__()
        x = self._step() * eigenvalues
        slow = numpy.where(x < 0.5, x, 0.0)
        # (1 - (1 - x)^t) / x without cancellation in the slow modes.
        small = -numpy.expm1(self.steps * numpy.log1p(-slow)) / numpy.where(slow > 0, slow, 1)
        small = numpy.where(slow > 0, small, self.steps)
        fast = (1 - self.residual(eigenvalues)) / numpy.where(x < 0.5, 1, x)
        return self._step() * numpy.where(x < 0.5, small, fast)

    def _step(self) -> float:
        if self.eta == "auto":
            raise ValueError('eta is still "auto": call resolved(largest eigenvalue) first.')
        return self.eta


class GradientFlow(SpectralAlgorithm):
    """Gradient descent with infinitesimal steps, run for a time."""

    time: float | int = eqx.field(static=True, converter=plain, default=math.inf)

    def __check_init__(self):
        if not (is_number(self.time) and self.time >= 0):
            raise ValueError(f"time must be zero or more, got {self.time!r}.")

    @property
    def converged(self) -> bool:
        return math.isinf(self.time)

    def resolved(self, largest: float) -> "GradientFlow":
        return self

    def stopped(self, at: float | int) -> "GradientFlow":
        return GradientFlow(at)

    def residual(self, eigenvalues):
        numpy = eigenvalues.__array_namespace__()
        if self.converged:
            return numpy.where(eigenvalues > 0, 0.0, 1.0)
        return numpy.exp(-self.time * eigenvalues)

    def gain(self, eigenvalues):
        if self.converged:
            return 1 / eigenvalues
        numpy = eigenvalues.__array_namespace__()
        x = self.time * eigenvalues
        safe = numpy.where(x > 0, x, 1)
        return self.time * numpy.where(x > 0, -numpy.expm1(-x) / safe, 1)


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

    def resolved(self, largest: float) -> "DirectOptimization":
        return self

    def stopped(self, at: float | int) -> "DirectOptimization":
        raise ValueError("direct optimisation has no trajectory: use GradientDescent or GradientFlow.")

    def residual(self, eigenvalues):
        return eigenvalues.__array_namespace__().where(eigenvalues > 0, 0.0, 1.0)

    def gain(self, eigenvalues):
        return 1 / eigenvalues
