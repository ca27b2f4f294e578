"""Single points as cells: nothing cuts them, and every neuron has its affine function around them."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from finitewidth.measure.regions.cells import Cells, Functions, Layer, Sides, Split


class Points(Cells):
    """Points at u = 0, each with the distance to the nearest boundary that has been met so far."""

    def __init__(self, nearest: Float[np.ndarray, " cells"], coordinates: int):
        self.nearest, self.coordinates = nearest, coordinates

    def __len__(self) -> int:
        return len(self.nearest)

    def reach(self) -> np.ndarray:
        return np.ones(self.coordinates)

    def take(self, index: np.ndarray | slice) -> "Points":
        return Points(self.nearest[index], self.coordinates)

    def joined(self, others: Sequence["Points"]) -> "Points":
        return Points(np.concatenate([self.nearest, *(o.nearest for o in others)]), self.coordinates)

    def sides(self, z: Layer, tolerance: np.ndarray) -> Sides:
        self._meet(z)
        nothing = np.zeros((len(self), z.shape[2]), bool)
        return Sides(nothing, z[:, -1] > 0)

    def largest(self, z: Layer, groups: np.ndarray, tolerance: np.ndarray) -> Split:
        inside = groups >= 0
        members = np.where(inside, z[:, -1][:, groups], -np.inf)
        winners = np.argmax(members, axis=2)
        winner = np.take_along_axis(z, groups[np.arange(len(groups)), winners][:, None], axis=2)
        for member in range(groups.shape[1]):
            other = (winners != member) & inside[:, member]
            self._meet(np.where(other[:, None], winner - z[:, :, groups[:, member]], np.nan))
        return Split(self, np.arange(len(self)), winners)

    def cut(self, g: Functions, tolerance: np.ndarray) -> tuple[np.ndarray, "Points", "Points"]:
        raise NotImplementedError("points are not cut.")

    def _meet(self, z: Layer) -> None:
        """Distances |g(0)| / |slope| to all zeros of affine functions, of which the least counts."""
        slope = np.linalg.norm(z[:, :-1], axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            distance = np.where(slope > 0, np.abs(z[:, -1]) / slope, np.inf)
        self.nearest = np.minimum(
            self.nearest, np.nan_to_num(distance, nan=np.inf).min(axis=1, initial=np.inf)
        )
