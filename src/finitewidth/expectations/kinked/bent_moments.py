r"""Averages at two points of activations whose curvature jumps at zero, such as ELU with alpha = 1.

Derivatives of the third order and above are distributions. Their Hermite coefficients follow from those of
the curvature, because $\langle f'h_j\rangle=\sqrt{(j+1)/K}\,\langle f\,h_{j+1}\rangle$, and contain all point
masses. At one and the same point only those products are used that have a mean, or sums of products that are
derivatives of $\langle\sigma^2\rangle$ and $\langle\sigma'^2\rangle$: with $He_2$ and $He_4$ of z/sqrt(K),

$$\langle\sigma'''\sigma'\rangle=\frac{\langle\sigma'^2He_2\rangle}{2K}-\langle\sigma''^2\rangle,\qquad
  \langle\sigma''''\sigma\rangle=\frac{\langle\sigma^2He_4\rangle}{2K^2}
  -4\langle\sigma'''\sigma'\rangle-3\langle\sigma''^2\rangle,$$

and $\langle\sigma'^2He_4\rangle/2K^2$ is the mean of $\sigma^{(5)}\sigma'$ plus four times that of
$\sigma''''\sigma''$ plus three times that of $\sigma'''^2$; the first of them stands for all.
"""

import math

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import Elementwise
from finitewidth.expectations.four_factors.derivative_moments import (
    HIGHEST_DERIVATIVE,
    DerivativeMoments,
    NeuronMoments,
    is_smooth,
)
from finitewidth.expectations.kinked.kinks import shape_at_zero

_CURVATURE = 2
_SAME = 1e-9


class BentMoments(NeuronMoments):
    """Averages of an activation whose curvature jumps at zero; parameters as in `NeuronMoments`."""

    def __init__(self, function: Elementwise, K: Float[np.ndarray, "p p"], tolerance: float = 1e-5):
        slope = shape_at_zero(function).jumps[0]
        if slope:
            raise ValueError(
                f"the slope of the activation jumps by {slope:.3g}: its curvature has no mean square."
            )
        variance = np.diag(K)
        near = np.abs(K - variance) <= _SAME * variance
        self._equal = near & near.T
        super().__init__(function, K, tolerance, _CURVATURE, more=HIGHEST_DERIVATIVE - _CURVATURE)

    @property
    def _same_point(self):
        return self._equal

    def _own(self, factor):
        factor = tuple(sorted(factor))
        square = lambda k: self._product((k, k)) @ self._weights
        if max(factor, default=0) <= _CURVATURE:
            return self._product(factor) @ self._weights
        if factor == (1, 3):
            return self._response(1, 2) - square(_CURVATURE)
        if factor == (0, 4):
            return self._response(0, 4) - 4 * self._own((1, 3)) - 3 * square(_CURVATURE)
        if factor == (1, 5):
            return self._response(1, 4)
        if factor in ((2, 4), (3, 3)):
            return np.zeros_like(self._std)
        raise ValueError(
            f"derivatives of orders {factor} at one point have no mean where the curvature jumps."
        )

    def _response(self, k: int, order: int) -> Float[np.ndarray, " p"]:
        """Half the mean of a derivative of the squared k-th derivative, of even order."""
        coefficient = self._hermite((k, k))[:, order]
        return math.sqrt(math.factorial(order)) * coefficient / (2 * self._std**order)

    def _series(self, factor):
        if max(factor, default=0) <= _CURVATURE:
            return self._hermite(factor)[:, : self._terms]
        if len(factor) > 1:
            raise ValueError(
                f"a product of derivatives of orders {factor} has no series where the curvature jumps."
            )
        raised = max(factor) - _CURVATURE
        j = np.arange(self._terms)
        growth = np.sqrt(np.prod([j + i for i in range(1, raised + 1)], axis=0))
        shifted = self._hermite((_CURVATURE,))[:, raised : raised + self._terms]
        return growth * shifted / self._std[:, None] ** raised


def neuron_moments(function: Elementwise, K: Float[np.ndarray, "p p"], tolerance: float) -> NeuronMoments:
    """Averages of an activation with a continuous slope; the tolerance is that of smooth ones."""
    return DerivativeMoments(function, K, tolerance) if is_smooth(function) else BentMoments(function, K)
