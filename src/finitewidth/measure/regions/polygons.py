"""Convex polygons of a plane, many at once."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float, Int

from finitewidth.measure.regions.cells import BOTH, Cells, Functions, Layer, Sides

# Two corners that are closer than this share of the whole are one.
_CLOSEST = 1e-14
_ENTRIES = 4_000_000


class Polygons(Cells):
    """Polygons with corners (cells, most corners, 3) in order, of which the first `count` are meant.

    A corner is (u_1, u_2, 1); in the whole plane it lies on a triangle between (0, 0, 1) and two directions
    (u_1, u_2, 0). What follows the last corner repeats the first.
    """

    def __init__(self, corners: Float[np.ndarray, "cells most 3"], count: Int[np.ndarray, " cells"], whole):
        self.corners, self.count = corners, count
        # Size of the whole, and the largest size of each coordinate.
        self.whole: tuple[float, np.ndarray] = whole

    @classmethod
    def start(cls, corners: Float[np.ndarray, "cells most 3"]) -> "Polygons":
        """Polygons to begin with, all with the same number of corners."""
        size = np.linalg.norm(np.ptp(corners, axis=(0, 1)))
        return cls(
            corners,
            np.full(len(corners), corners.shape[1]),
            (float(size), np.abs(corners).max(axis=(0, 1))),
        )

    def __len__(self) -> int:
        return len(self.count)

    def reach(self) -> np.ndarray:
        return self.whole[1]

    def take(self, index: np.ndarray | slice) -> "Polygons":
        return Polygons(self.corners[index], self.count[index], self.whole)

    def joined(self, others: Sequence["Polygons"]) -> "Polygons":
        parts = [part for part in (self, *others) if len(part)] or [self]
        if len(parts) == 1:
            return parts[0]
        count = np.concatenate([part.count for part in parts])
        most, start = int(count.max()), 0
        corners = np.empty((len(count), most, 3))
        for part in parts:
            here, shared = corners[start : start + len(part)], min(most, part.corners.shape[1])
            here[:, :shared] = part.corners[:, :shared]
            here[:, shared:] = part.corners[:, :1]
            start += len(part)
        return Polygons(corners, count, self.whole)

    def sides(self, z: Layer, tolerance: np.ndarray) -> Sides:
        cut, positive = (np.empty((len(self), z.shape[2]), bool) for _ in range(2))
        step = max(1, _ENTRIES // (self.corners.shape[1] * z.shape[2]))
        for start in range(0, len(self), step):
            here = slice(start, start + step)
            values = self.corners[here] @ z[here]
            above, below = values.max(axis=1) > tolerance, values.min(axis=1) < -tolerance
            cut[here], positive[here] = above & below, above
        return Sides(cut, positive)

    def cut(self, g: Functions, tolerance: np.ndarray) -> tuple[np.ndarray, "Polygons", "Polygons"]:
        values = np.einsum("cvk,ck->cv", self.corners, g)
        above, below = values.max(axis=1) > tolerance, values.min(axis=1) < -tolerance
        side = above.astype(int) - below
        crossed = np.flatnonzero(above & below)
        positive, negative = self.take(crossed)._halves(values[crossed], tolerance[crossed])
        # What is left of a cell after corners that fall together are counted once must be a polygon.
        solid = (positive.count >= 3) & (negative.count >= 3)
        side[crossed] = np.where(positive.count >= 3, 1, -1)
        side[crossed[solid]] = BOTH
        if not solid.all():
            kept = np.flatnonzero(solid)
            positive, negative = positive.take(kept), negative.take(kept)
        return side, positive, negative

    def _halves(self, values: np.ndarray, tolerance: np.ndarray) -> tuple["Polygons", "Polygons"]:
        """Both parts of polygons that are all cut; the corners of each side are neighbours."""
        cells, most = np.arange(len(self)), values.shape[1]
        count = self.count
        positive = (values > tolerance[:, None]) & (np.arange(most) < count[:, None])
        before = np.roll(positive, 1, axis=1)
        before[:, 0] = positive[cells, count - 1]
        first = np.argmax(positive & ~before, axis=1)
        above = positive.sum(axis=1)
        entry = self._crossing(values, tolerance, (first - 1) % count, first)
        leave = self._crossing(values, tolerance, (first + above) % count, (first + above - 1) % count)
        corners = np.concatenate([self.corners, entry.point[:, None], leave.point[:, None]], axis=1)
        return (
            self._chain(corners, most, most + 1, first, above, ~entry.at_positive, ~leave.at_positive),
            self._chain(
                corners, most + 1, most, (first + above) % count, count - above,
                ~leave.at_other, ~entry.at_other,
            ),
        )  # fmt: skip

    def _crossing(self, values, tolerance, other, positive) -> "_Crossing":
        """Where the edge from a corner on the positive side to another that is not crosses zero."""
        cells = np.arange(len(self))
        g_other, g_positive = values[cells, other], values[cells, positive]
        start, end = self.corners[cells, positive], self.corners[cells, other]
        way = g_positive / (g_positive - np.minimum(g_other, 0.0))
        length = np.linalg.norm(end - start, axis=1)
        least = _CLOSEST * self.whole[0]
        at_other = (g_other >= -tolerance) | ((1 - way) * length < least)
        at_positive = ~at_other & (way * length < least)
        way = np.where(at_other, 1.0, np.where(at_positive, 0.0, way))[:, None]
        point = np.where(way == 1, end, start + way * (end - start))
        return _Crossing(point, at_other, at_positive)

    def _chain(self, corners, lead, tail, first, length, with_lead, with_tail) -> "Polygons":
        """Polygons of an extra corner, some corners in a row, and another extra corner."""
        count = length + with_lead + with_tail
        place = np.arange(int(count.max(initial=3)))
        along = place - with_lead[:, None]
        index = (first[:, None] + along) % self.count[:, None]
        index = np.where(along < 0, lead, index)
        index = np.where((along == length[:, None]) & with_tail[:, None], tail, index)
        index = np.where(place < count[:, None], index, index[:, :1])
        return Polygons(np.take_along_axis(corners, index[:, :, None], axis=1), count, self.whole)


class _Crossing:
    """Where an edge crosses zero, and whether that is one of its ends."""

    def __init__(self, point: np.ndarray, at_other: np.ndarray, at_positive: np.ndarray):
        self.point, self.at_other, self.at_positive = point, at_other, at_positive


def areas(corners: Float[np.ndarray, "cells most 3"]) -> Float[np.ndarray, " cells"]:
    """Areas of polygons with finite corners; infinite where a corner is a direction."""
    with np.errstate(divide="ignore", invalid="ignore"):
        points = corners[:, :, :2] / corners[:, :, 2:]
        # Relative to a corner of its own, so that the area of a small cell far out keeps its digits.
        edge = points - points[:, :1]
        following = np.roll(edge, -1, axis=1)
        found = 0.5 * np.abs(
            np.sum(edge[:, :, 0] * following[:, :, 1] - edge[:, :, 1] * following[:, :, 0], axis=1)
        )
    return np.where((corners[:, :, 2] == 0).any(axis=1), np.inf, found)


def centroids(corners: Float[np.ndarray, "cells most 3"]) -> Float[np.ndarray, "cells 2"]:
    """Centres of mass of polygons with finite corners."""
    base = corners[:, :1, :2]
    edge = corners[:, :, :2] - base
    following = np.roll(edge, -1, axis=1)
    cross = edge[:, :, 0] * following[:, :, 1] - edge[:, :, 1] * following[:, :, 0]
    moment = np.sum((edge + following) * cross[:, :, None], axis=1)
    return base[:, 0] + moment / (3 * cross.sum(axis=1))[:, None]
