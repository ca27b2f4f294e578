r"""The spectrum of the network's own tangent kernel $\Theta=JJ^T$ on some of the points."""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float

from finitewidth.measure.specimen import Specimen

# Rows of the kernel: points times outputs. The decomposition takes a second or two.
MOST_ROWS = 600
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
        return float(self.eigenvalues.sum() ** 2 / np.sum(self.eigenvalues**2))


def tangent_kernel_spectrum(specimen: Specimen) -> TangentKernel:
    """All eigenvalues on as many of the first points as the rows allow."""
    outputs = specimen.outputs().shape[1]
    points = max(2, min(specimen.points, MOST_ROWS // outputs))
    shown = specimen.on(jax.tree.map(lambda part: part[:points], specimen.x))
    units = np.eye(points * outputs).reshape(-1, points, outputs)
    # Columns, not the Jacobian: that would be (points x outputs x parameters) numbers.
    columns = [shown.jacobian_product(shown.transposed_jacobian_product(unit)).ravel() for unit in units]
    values = np.linalg.eigvalsh(np.array(columns, float))
    return TangentKernel(np.clip(values[::-1], 0.0, None), points)
