r"""Which cells of a plane share an edge, and which neuron changes there.

The preactivations of a network are continuous, so cells on both sides of an edge have the same two corners
there: cells touch edge to edge. All cells run round in one direction, so a shared edge has its corners in
opposite order in the two. Both sides compute a corner by themselves, to rounding. So an edge is matched with
the nearest edge of opposite direction, and each must be the nearest of the other.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int, Integer
from scipy.spatial import KDTree

# How far the corners of two sides may lie apart: as a share of the edge, or of the whole polygon.
_OF_EDGE = 1e-3
_OF_WHOLE = 1e-9


class Neighbours(NamedTuple):
    """Pairs of cells that share an edge.

    Attributes
    ----------
    cells
        The two cells (edges, 2) on the sides of every edge, by their numbers, the smaller first.
    neurons
        The neuron (edges,) whose gate or winner differs, as a column of the patterns; -1 where several do.
    ends
        The two corners (edges, 2, 2) of every edge, in the coordinates u.
    outer
        How many edges of cells lie on the border of the polygon, and have no cell behind them.
    """

    cells: Int[np.ndarray, "edges 2"]
    neurons: Int[np.ndarray, " edges"]
    ends: Float[np.ndarray, "edges 2 2"]
    outer: int

    @property
    def number(self) -> int:
        """How many edges two cells share."""
        return len(self.cells)

    @property
    def lengths(self) -> Float[np.ndarray, " edges"]:
        """Length of every shared edge, in the coordinates u."""
        return np.linalg.norm(self.ends[:, 1] - self.ends[:, 0], axis=1)

    def of(self, cell: int) -> Int[np.ndarray, " some"]:
        """The neighbours of one cell."""
        first, second = self.cells.T
        return np.sort(np.concatenate([second[first == cell], first[second == cell]]))


def find_neighbours(
    corners: Float[np.ndarray, "cells most 2"],
    counts: Int[np.ndarray, " cells"],
    patterns: Integer[np.ndarray, "cells neurons"],
    border: Float[np.ndarray, "corners 2"],
) -> Neighbours:
    """The edges that cells of a convex polygon share.

    Parameters
    ----------
    corners, counts, patterns
        Of the cells, as in `PlaneRegions`.
    border
        Corners of the whole polygon in order.
    """
    most = corners.shape[1]
    cell, place = np.nonzero(np.arange(most) < counts[:, None])
    start = corners[cell, place]
    end = corners[cell, (place + 1) % counts[cell]]
    size = float(np.linalg.norm(np.ptp(border, axis=0)))
    outer = _on_border(start, end, border, _OF_WHOLE * size)
    cell, start, end = cell[~outer], start[~outer], end[~outer]
    if not len(cell):
        nothing = np.zeros((0, 2), int)
        return Neighbours(nothing, nothing[:, 0], np.zeros((0, 2, 2)), int(outer.sum()))
    edges = np.concatenate([start, end], axis=1)
    nearest = KDTree(edges).query(np.concatenate([end, start], axis=1))
    distance, partner = (np.asarray(part) for part in nearest)
    allowed = np.maximum(_OF_EDGE * np.linalg.norm(end - start, axis=1), _OF_WHOLE * size)
    here = np.arange(len(cell))
    # Every pair is found from both of its cells.
    paired = (partner[partner] == here) & (distance <= allowed) & (cell[partner] != cell)
    if not paired.all():
        raise ValueError(
            f"{int(np.sum(~paired))} of {len(cell)} edges have no cell on their other side: the cells there "
            "are too thin to be told apart."
        )
    first = cell < cell[partner]
    pairs = np.stack([cell[first], cell[partner[first]]], axis=1)
    ends = np.stack([start[first], end[first]], axis=1)
    return Neighbours(pairs, _changing_neuron(patterns, pairs), ends, int(outer.sum()))


def _on_border(
    start: np.ndarray, end: np.ndarray, border: np.ndarray, closest: float
) -> Bool[np.ndarray, " edges"]:
    """Whether both ends of an edge lie on one side of the polygon."""
    side = np.roll(border, -1, axis=0) - border
    normal = np.stack([-side[:, 1], side[:, 0]], axis=1) / np.linalg.norm(side, axis=1, keepdims=True)
    level = np.sum(normal * border, axis=1)
    near = [np.abs(points @ normal.T - level) <= closest for points in (start, end)]
    return (near[0] & near[1]).any(axis=1)


def _changing_neuron(patterns: np.ndarray, pairs: np.ndarray) -> Int[np.ndarray, " edges"]:
    found = np.empty(len(pairs), int)
    step = max(1, 10_000_000 // max(1, patterns.shape[1]))
    for begin in range(0, len(pairs), step):
        first, second = pairs[begin : begin + step].T
        different = patterns[first] != patterns[second]
        found[begin : begin + step] = np.where(different.sum(axis=1) == 1, different.argmax(axis=1), -1)
    return found
