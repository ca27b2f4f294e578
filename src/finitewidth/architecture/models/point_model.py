r"""A model at fixed points: a function of its weights, $W\mapsto z(W)$."""

from abc import abstractmethod

import equinox as eqx
import numpy as np
from jaxtyping import Array, Float


class PointModel(eqx.Module):
    """A model at fixed points, as a function of its weights."""

    @abstractmethod
    def __call__(self, weights: Float[Array, "..."]) -> Float[Array, "n out"]:
        """Outputs at the points."""

    @abstractmethod
    def jacobian(self, weights: Float[Array, "..."]) -> Float[Array, "n_out params"]:
        """Effective features of every output at every point (points first), over all weights in a row."""


@eqx.filter_jit
def outputs_at(points: PointModel, weights: Array) -> Array:
    """Outputs, compiled."""
    return points(weights)


@eqx.filter_jit
def _jacobian(points: PointModel, weights: Array) -> Array:
    return points.jacobian(weights)


def jacobian_at(points: PointModel, weights: Array) -> np.ndarray:
    """Effective features, compiled."""
    return np.asarray(_jacobian(points, weights))
