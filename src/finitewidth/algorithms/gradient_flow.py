r"""Gradient flow: after a time t a mode has kept $e^{-\lambda t}$ of its residual."""

import math
from typing import Any

from finitewidth._base.checks import is_number
from finitewidth._base.either import AnyNumber, Setting, holds_tracer, is_traced_number
from finitewidth._base.linalg import smooth_filters
from finitewidth.algorithms.clocks import Flow
from finitewidth.algorithms.gradient_descent import GradientDescent, descent_projectors
from finitewidth.algorithms.interface import SpectralAlgorithm

# Real networks follow a flow with steps this much smaller than the largest stable one.
_FLOW_STEP = 0.02


class GradientFlow(SpectralAlgorithm):
    """Gradient descent with infinitesimal steps, run for a time.

    Inside `jax.jit`, `grad` and `vmap` the time may be a number that JAX follows; it is then a finite one.
    """

    duration: Setting

    def __init__(self, time: AnyNumber = math.inf):
        self.duration = Setting.of(time)

    def __check_init__(self):
        if not (is_traced_number(self.time) or (is_number(self.time) and self.time >= 0)):
            raise ValueError(f"time must be zero or more, got {self.time!r}.")

    @property
    def time(self) -> Any:
        """For how long."""
        return self.duration.value

    def __repr__(self) -> str:
        return f"GradientFlow(time={self.time!r})"

    @property
    def converged(self) -> bool:
        return not holds_tracer(self.time) and math.isinf(self.time)

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
        if holds_tracer(eigenvalues, self.time):
            return smooth_filters.flow_gain(eigenvalues, self.time)
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
