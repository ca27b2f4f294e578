r"""Gradient flow: after a time t a mode has kept $e^{-\lambda t}$ of its residual."""

import math

import equinox as eqx

from finitewidth._base.checks import is_number, plain
from finitewidth.algorithms.clocks import Flow
from finitewidth.algorithms.gradient_descent import GradientDescent, descent_projectors
from finitewidth.algorithms.interface import SpectralAlgorithm

# Real networks follow a flow with steps this much smaller than the largest stable one.
_FLOW_STEP = 0.02


class GradientFlow(SpectralAlgorithm):
    """Gradient descent with infinitesimal steps, run for a time."""

    time: float | int = eqx.field(static=True, converter=plain, default=math.inf)

    def __check_init__(self):
        if not (is_number(self.time) and self.time >= 0):
            raise ValueError(f"time must be zero or more, got {self.time!r}.")

    @property
    def converged(self) -> bool:
        return math.isinf(self.time)

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

    def clock(self) -> Flow:
        return Flow(float(self.time))

    def projectors(self, l1, l2):
        return descent_projectors(l1, l2, 0.0)

    def descent(self, largest: float) -> GradientDescent:
        if self.converged:
            return GradientDescent().resolved(largest)
        steps = max(1, math.ceil(self.time * largest / (2 * _FLOW_STEP)))
        return GradientDescent(self.time / steps, steps)
