r"""The largest stable learning rate, from the largest curvature of the loss.

Near a minimum an optimiser with step $\eta$ is stable along a direction of curvature $\lambda$ while
$\eta\lambda$ is below a limit of its own. Adam divides the gradient of every weight by P, the root of its
averaged square, so what counts is the curvature of $P^{-1/2}HP^{-1/2}$. A network does not carry
the averages of the optimiser that trained it: here they are taken over batches of the points at the
present weights.
"""

import warnings
from typing import NamedTuple

import jax
import numpy as np

from finitewidth.algorithms.optimizers import EPSILON, OPTIMIZERS
from finitewidth.measure.loss.operators import SymmetricOperator
from finitewidth.measure.loss.spectrum import eigenpairs
from finitewidth.measure.loss.stability import stability_limit
from finitewidth.measure.specimen import Specimen, Vector

# Points in one of the batches that Adam would see.
_BATCH = 32


class StepLimit(NamedTuple):
    """The largest stable learning rate of an optimiser, and how it was found.

    Attributes
    ----------
    optimizer, momentum
        The rule, and its beta.
    sharpness
        Largest eigenvalue of the loss Hessian; for Adam with every weight scaled by Adam's averages.
    residual
        Norm of H v - sharpness v for the eigenvector v, relative to the sharpness.
    largest
        The largest stable learning rate; infinite where the loss curves nowhere upwards.
    learning_rate
        The one that was asked about, if any.
    """

    optimizer: str
    momentum: float
    sharpness: float
    residual: float
    largest: float
    learning_rate: float | None

    @property
    def ratio(self) -> float | None:
        """The learning rate over the largest stable one."""
        return None if self.learning_rate is None else self.learning_rate / self.largest

    @property
    def words(self) -> str:
        """The optimiser, as one says it."""
        row = OPTIMIZERS[self.optimizer]
        return row.words.format(b=self.momentum) + (", estimated" if row.preconditioned else "")


def step_limit(specimen: Specimen, learning_rate: float | None, optimizer: str, momentum: float) -> StepLimit:
    """The limit on all points of a specimen at once."""
    scale = adam_scale(specimen) if OPTIMIZERS[optimizer].preconditioned else np.ones_like(specimen.weights)
    sharpness, residual = largest_curvature(specimen, scale)
    largest = stability_limit(optimizer, momentum) / sharpness if sharpness > 0 else np.inf
    return StepLimit(optimizer, momentum, sharpness, residual, largest, learning_rate)


def adam_scale(specimen: Specimen) -> Vector:
    """1 / sqrt(P) of every weight, with P^2 the mean square of the gradients of batches."""
    starts = range(0, specimen.points, min(_BATCH, specimen.points))
    squares = [_batch(specimen, slice(start, start + _BATCH)).gradient() ** 2 for start in starts]
    return (1 / np.sqrt(np.sqrt(np.mean(squares, axis=0)) + EPSILON)).astype(specimen.weights.dtype)


def _batch(specimen: Specimen, rows: slice) -> Specimen:
    labels = specimen.y
    assert labels is not None
    return specimen.on(jax.tree.map(lambda part: part[rows], specimen.x), labels[rows])


def largest_curvature(specimen: Specimen, scale: Vector) -> tuple[float, float]:
    """The largest eigenvalue of S H S, S being diagonal, and its residual relative to it."""
    scaled = lambda v: scale * specimen.hessian_product(scale * v)
    with warnings.catch_warnings():
        # A residual above the tolerance stands in the report, beside the value.
        warnings.simplefilter("ignore", RuntimeWarning)
        found = eigenpairs(SymmetricOperator(scaled, len(scale), scale.dtype), 1)
    value = float(found.values[0])
    return value, float(found.residuals[0]) / abs(value) if value else 0.0
