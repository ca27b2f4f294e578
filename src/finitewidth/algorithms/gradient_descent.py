r"""Gradient descent: T steps of size $\eta$ leave $(1-\eta\lambda)^T$ of a mode's residual."""

import math
from typing import Any, Literal

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import is_number, plain
from finitewidth._base.either import AnyNumber, Setting, as_known, holds_tracer, is_traced_number
from finitewidth._base.linalg import smooth_filters
from finitewidth._base.linalg.descent_filter import descent_gain, descent_residual
from finitewidth.algorithms.clocks import Steps
from finitewidth.algorithms.interface import Eigenvalues, SpectralAlgorithm

# Whole numbers from here on do not fit into 64 bits.
_MOST_STEPS = 2**63


class GradientDescent(SpectralAlgorithm):
    """Full-batch gradient descent on half the sum of squared errors.

    Parameters
    ----------
    eta
        Global step; "auto" takes half the largest stable one, 1 / lambda_max. Inside `jax.jit`, `grad` and
        `vmap` it may be a number that JAX follows; whether it is stable is then not looked at.
    steps
        Number of steps; infinity runs to the end of training.
    """

    step: Setting
    steps: float | int = eqx.field(static=True)

    def __init__(self, eta: AnyNumber | Literal["auto"] = "auto", steps: AnyNumber = math.inf):
        self.step, self.steps = Setting.of(eta), plain(steps)

    def __check_init__(self):
        known = is_number(self.eta) and 0 < self.eta < math.inf
        if not (known or is_traced_number(self.eta) or (isinstance(self.eta, str) and self.eta == "auto")):
            raise ValueError(f'eta must be "auto" or a positive number, got {self.eta!r}.')
        if not (is_number(self.steps) and self.steps >= 0) or (
            math.isfinite(self.steps) and self.steps != int(self.steps)
        ):
            raise ValueError(f"steps must be a whole number, zero or more, or infinity, got {self.steps!r}.")
        if _MOST_STEPS <= self.steps < math.inf:
            raise ValueError(
                f"steps must be below 2**63, or infinity for the end of training, got {self.steps!r}."
            )

    @property
    def eta(self) -> Any:
        """The global step, or "auto"."""
        return self.step.value

    def __repr__(self) -> str:
        return f"GradientDescent(eta={self.eta!r}, steps={self.steps!r})"

    @property
    def converged(self) -> bool:
        return math.isinf(self.steps)

    @property
    def can_diverge(self) -> bool:
        return not isinstance(self.eta, str)

    def resolved(self, largest: float | Array) -> "GradientDescent":
        limit = 2 / largest
        if isinstance(self.eta, str):
            return GradientDescent(limit / 2, self.steps)
        if not holds_tracer(self.eta, limit) and self.eta >= limit:
            raise ValueError(
                f"eta={self.eta:.4g} is not below 2/lambda_max={limit:.4g}: gradient descent diverges on "
                'this data. Lower it, or use eta="auto".'
            )
        return self

    def stopped(self, at: float | int) -> "GradientDescent":
        return GradientDescent(self.eta, at)

    def residual(self, eigenvalues):
        if self.converged:
            return eigenvalues.__array_namespace__().where(1 - self._step() * eigenvalues < 1, 0.0, 1.0)
        if holds_tracer(eigenvalues, self.eta):
            return smooth_filters.descent_residual(jnp.asarray(eigenvalues), self._step(), int(self.steps))
        return descent_residual(eigenvalues, self._step(), self.steps)

    def gain(self, eigenvalues):
        if self.converged:
            return 1 / eigenvalues
        if holds_tracer(eigenvalues, self.eta):
            return smooth_filters.descent_gain(jnp.asarray(eigenvalues), self._step(), int(self.steps))
        return descent_gain(eigenvalues, self._step(), self.steps)

    def clock(self) -> Steps:
        return Steps(as_known(self._step()), self.steps if self.converged else int(self.steps))

    def projectors(self, l1, l2):
        return descent_projectors(l1, l2, self._step())

    def descent(self, largest: float) -> "GradientDescent":
        return self.resolved(largest)

    def _step(self) -> float | Array:
        if isinstance(self.eta, str):
            raise ValueError('eta is still "auto": call resolved(largest eigenvalue) first.')
        return self.eta


def descent_projectors(l1: Eigenvalues, l2: Eigenvalues, eta: float | Array) -> tuple[Array, Array]:
    r"""$Z_A = \frac{1-\eta\lambda_1}{\lambda_1}X$ and $Z_B = Z_A+\frac\eta2X$; $\eta = 0$ for a flow."""
    X = inverting(l1, l2, eta)
    Z_A = (1 - eta * l1) / l1 * X
    return Z_A, Z_A + eta / 2 * X


def inverting(
    l1: Float[AnyArray, "..."] | float, l2: Float[AnyArray, "..."] | float, eta: float | int | Array
) -> Float[Array, "..."]:
    r"""The inverting tensor of a pair of modes, $\eta\sum_s (1-\eta\lambda_1)^s(1-\eta\lambda_2)^s$."""
    return jnp.asarray(1 / (l1 + l2 - eta * l1 * l2))
