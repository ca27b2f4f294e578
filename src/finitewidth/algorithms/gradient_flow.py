r"""Gradient flow: after a time t a mode has kept $e^{-\lambda t}$ of its residual."""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import is_number
from finitewidth._base.either import AnyNumber, Setting, as_known, holds_tracer, is_traced_number
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
        return numpy.exp(-self._times(eigenvalues))

    def gain(self, eigenvalues):
        if self.converged:
            return 1 / eigenvalues
        if holds_tracer(eigenvalues, self.time):
            return smooth_filters.flow_gain(jnp.asarray(eigenvalues), self.time)
        numpy = eigenvalues.__array_namespace__()
        x = self._times(eigenvalues)
        learnt = -numpy.expm1(-x) / numpy.where(x > 0, eigenvalues, 1)
        return numpy.where(x > 0, learnt, min(self.time, _largest(eigenvalues)))

    def _times(self, eigenvalues: Float[AnyArray, "*n"]) -> Float[AnyArray, "*n"]:
        """Time times eigenvalue: of a time beyond the numbers of their type, that of the largest number."""
        if holds_tracer(eigenvalues, self.time):
            return self.time * eigenvalues
        with np.errstate(over="ignore"):
            return min(self.time, _largest(eigenvalues)) * eigenvalues

    def clock(self) -> Flow:
        return Flow(as_known(self.time))

    def projectors(self, l1, l2):
        return descent_projectors(l1, l2, 0.0)

    def descent(self, largest: float) -> GradientDescent:
        if self.converged:
            return GradientDescent().resolved(largest)
        length = self.time * largest / (2 * _FLOW_STEP)
        if length >= 2**63:
            raise ValueError(
                f"networks follow a flow in small steps, and a time of {self.time:.1g} takes {length:.1g} of "
                "them: shorten it, or ask for the end, GradientFlow()."
            )
        steps = max(1, math.ceil(length))
        return GradientDescent(self.time / steps, steps)


def _largest(values: Float[AnyArray, "*n"]) -> float:
    """Largest number of their type."""
    return float(np.finfo(values.dtype).max)
