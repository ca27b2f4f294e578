r"""The spectrum of the network's own tangent kernel $\Theta=JJ^T$ on some of the points."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.advice.diagnosis.sizes import participation
from finitewidth.measure.loss.laziness import kernel_points, tangent_kernel
from finitewidth.measure.specimen import Specimen

# A kernel in single precision knows its small eigenvalues no better.
_RESOLUTION = 1e-6


class TangentKernel(NamedTuple):
    """Eigenvalues of the tangent kernel, largest first.

    Attributes
    ----------
    eigenvalues
        Of the kernel of `points` points with all their outputs, (points x outputs) rows.
    points
        Number of points.
    """

    eigenvalues: Float[np.ndarray, " rows"]
    points: int

    @property
    def largest(self) -> float:
        """The largest eigenvalue, divided by the number of points: the curvature of a mean squared error."""
        return float(self.eigenvalues[0] / self.points)

    @property
    def condition(self) -> float:
        """Largest over smallest eigenvalue; infinite where the smallest is not resolved."""
        smallest = self.eigenvalues[-1]
        resolved = smallest > _RESOLUTION * self.eigenvalues[0]
        return float(self.eigenvalues[0] / smallest) if resolved else float("inf")

    @property
    def effective_rank(self) -> float:
        """(sum of eigenvalues)^2 / sum of their squares: how many modes share the learning."""
        return participation(self.eigenvalues)


def tangent_kernel_spectrum(specimen: Specimen) -> TangentKernel:
    """All eigenvalues on as many of the first points as memory allows."""
    points = kernel_points(specimen)
    values = np.linalg.eigvalsh(tangent_kernel(specimen, points))
    return TangentKernel(np.clip(values[::-1], 0.0, None), points)
