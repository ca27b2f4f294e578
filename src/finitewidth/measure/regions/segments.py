"""Segments of a line, many at once."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from finitewidth.measure.regions.cells import BOTH, Cells, Functions, Layer, Sides, Split

_CLOSEST = 1e-14


class Segments(Cells):
    """Segments with ends (cells, 2, 2): (t, 1) each, or (+-1, 0) for the ends of the whole line.

    On the whole line an end between lies on the edge from (0, 1) to (+-1, 0), at t = first / second.
    """

    def __init__(self, ends: Float[np.ndarray, "cells 2 2"]):
        self.ends = ends

    def __len__(self) -> int:
        return len(self.ends)

    def reach(self) -> np.ndarray:
        return np.abs(self.ends).max(axis=(0, 1))

    def take(self, index: np.ndarray | slice) -> "Segments":
        return Segments(self.ends[index])

    def joined(self, others: Sequence["Segments"]) -> "Segments":
        return Segments(np.concatenate([self.ends, *(other.ends for other in others)]))

    def sides(self, z: Layer, tolerance: np.ndarray) -> Sides:
        # Products of ends would miss a neuron that is tiny at one end and zero at the other.
        at_ends = self.ends @ z
        above, below = at_ends.max(axis=1) > tolerance, at_ends.min(axis=1) < -tolerance
        return Sides(above & below, above)

    def split(self, z: Layer, sides: Sides, tolerance: np.ndarray) -> Split:
        """Every root in every segment at once, in order; roots that fall together are one."""
        segment, neuron = np.nonzero(sides.cut)
        left, right = np.moveaxis(np.einsum("cek,ck->ce", self.ends[segment], z[segment, :, neuron]), 1, 0)
        way = left / (left - right)
        order = np.lexsort((way, segment))
        segment, neuron, way = segment[order], neuron[order], way[order]
        rising = right[order] > 0
        length = np.linalg.norm(self.ends[:, 1] - self.ends[:, 0], axis=1)
        least = _CLOSEST * np.abs(self.ends).max() / length[segment]
        way = np.where(way < least, 0.0, np.where(way > 1 - least, 1.0, way))
        after = np.concatenate([[0.0], way[:-1]])
        after[np.concatenate([[True], segment[1:] != segment[:-1]])] = 0.0
        kept = (way - after > least) & (way < 1)
        # Parts of a segment: from each kept root, or its start, to the next one, or its end.
        starts = np.concatenate([np.arange(len(self)), segment[kept]])
        begin = np.concatenate([np.zeros(len(self)), way[kept]])
        order = np.lexsort((begin, starts))
        parents, begin = starts[order], begin[order]
        same = np.concatenate([parents[1:] == parents[:-1], [False]])
        end = np.where(same, np.concatenate([begin[1:], [1.0]]), 1.0)
        ends = self._between(parents, begin, end)
        gates = sides.positive[parents]
        part = np.searchsorted(parents, np.arange(len(self)))
        self._switch(gates, parents, part, (begin + end) / 2, segment, neuron, way, rising)
        return Split(Segments(ends), parents, gates)

    def _switch(self, gates, parents, part, middle, segment, neuron, way, rising) -> None:
        """Open or shut, in every part of a segment, the gates that change in it."""
        parts = np.bincount(parents, minlength=len(self))[segment]
        root = np.repeat(np.arange(len(segment)), parts)
        within = np.arange(len(root)) - np.repeat(np.cumsum(parts) - parts, parts)
        place = part[segment[root]] + within
        gates[place, neuron[root]] = (middle[place] > way[root]) == rising[root]

    def _between(self, parents: np.ndarray, begin: np.ndarray, end: np.ndarray) -> np.ndarray:
        start, span = self.ends[parents, 0], self.ends[parents, 1] - self.ends[parents, 0]
        points = [start + way[:, None] * span for way in (begin, end)]
        points[1] = np.where(end[:, None] == 1, self.ends[parents, 1], points[1])
        return np.stack(points, axis=1)

    def cut(self, g: Functions, tolerance: np.ndarray) -> tuple[np.ndarray, "Segments", "Segments"]:
        values = np.einsum("cek,ck->ce", self.ends, g)
        above, below = values.max(axis=1) > tolerance, values.min(axis=1) < -tolerance
        side = above.astype(int) - below
        crossed = np.flatnonzero(above & below)
        side[crossed] = BOTH
        ends, (left, right) = self.ends[crossed], values[crossed].T
        way = (left / (left - right))[:, None]
        root = ends[:, 0] + way * (ends[:, 1] - ends[:, 0])
        first, second = np.stack([ends[:, 0], root], axis=1), np.stack([root, ends[:, 1]], axis=1)
        rises = (right > 0)[:, None, None]
        return side, Segments(np.where(rises, second, first)), Segments(np.where(rises, first, second))
