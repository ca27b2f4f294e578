"""Points that are measured at a time."""

import abc

import numpy as np
from jaxtyping import Float

from finitewidth._base.checks import check_whole


class Batch(abc.ABC):
    """A network on some of the points; what it averages, it averages over these."""

    @abc.abstractmethod
    def outputs(self) -> Float[np.ndarray, "points out"]:
        """f at every point."""

    @abc.abstractmethod
    def value(self) -> np.ndarray:
        """The mean loss."""

    @abc.abstractmethod
    def gradient(self) -> Float[np.ndarray, " parameters"]:
        """Its derivative by the weights."""

    @abc.abstractmethod
    def loss_slope(self) -> Float[np.ndarray, "points out"]:
        """Its derivative by the outputs."""

    @abc.abstractmethod
    def hessian_product(self, v: np.ndarray) -> Float[np.ndarray, " parameters"]:
        """H v."""

    @abc.abstractmethod
    def gauss_newton_product(self, v: np.ndarray) -> Float[np.ndarray, " parameters"]:
        """G v."""

    @abc.abstractmethod
    def jacobian_product(self, v: np.ndarray) -> Float[np.ndarray, "points out"]:
        """J v."""

    @abc.abstractmethod
    def transposed_jacobian_product(self, u: np.ndarray) -> Float[np.ndarray, " parameters"]:
        """J^T u."""

    @abc.abstractmethod
    def jacobian(self) -> Float[np.ndarray, "points out parameters"]:
        """J."""

    @abc.abstractmethod
    def kept_bytes(self) -> int:
        """Memory that is held for the next product."""

    @abc.abstractmethod
    def forget(self) -> None:
        """Let go of it."""


def slices(points: int, batch_size: int | None) -> tuple[slice, ...]:
    """Rows of every batch, in order."""
    if batch_size is None:
        return (slice(0, points),)
    check_whole("batch_size", batch_size)
    return tuple(slice(start, min(start + batch_size, points)) for start in range(0, points, int(batch_size)))
