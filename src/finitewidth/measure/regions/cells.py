"""Cells on which a network is affine, and how a line or a hyperplane cuts many of them at once."""

import abc
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import numpy as np
from jaxtyping import Bool, Float, Int

AnyCells = TypeVar("AnyCells", bound="Cells")
# An affine function g = c @ (u, 1) of one cell's coordinates u, per cell.
Functions = Float[np.ndarray, "cells coordinates"]
# One per cell and neuron.
Layer = Float[np.ndarray, "cells coordinates neurons"]


class Sides(NamedTuple):
    """On which side of zero each neuron is in each cell; `cut` may also name cells that it does not cut."""

    cut: Bool[np.ndarray, "cells neurons"]
    positive: Bool[np.ndarray, "cells neurons"]


class Split(NamedTuple):
    """Cells that lie on one side of every neuron: from which cell each came, and on which sides it lies."""

    cells: "Cells"
    parents: Int[np.ndarray, " cells"]
    sides: np.ndarray


BOTH = 2


class Cells(abc.ABC):
    """Convex cells of one kind. Coordinates are homogeneous: (u, 1), or (u, 0) for a direction."""

    @abc.abstractmethod
    def __len__(self) -> int: ...

    @abc.abstractmethod
    def reach(self) -> Float[np.ndarray, " coordinates"]:
        """The largest size of every coordinate, from which rounding errors are judged."""

    @abc.abstractmethod
    def take(self: AnyCells, index: np.ndarray | slice) -> AnyCells:
        """Some of the cells, perhaps several times."""

    @abc.abstractmethod
    def joined(self: AnyCells, others: Sequence[AnyCells]) -> AnyCells:
        """These cells and others in a row."""

    @abc.abstractmethod
    def sides(self, z: Layer, tolerance: Float[np.ndarray, " neurons"]) -> Sides:
        """A first look at which neurons may cut which cells."""

    @abc.abstractmethod
    def cut(
        self: AnyCells, g: Functions, tolerance: Float[np.ndarray, " cells"]
    ) -> tuple[Int[np.ndarray, " cells"], AnyCells, AnyCells]:
        """Cut each cell by its own function g.

        The first answer is 1 where g is positive, -1 where it is negative, 0 where it vanishes and `BOTH`
        where it cuts; then come the positive and the negative parts of the cells that are cut.
        """

    def split(self, z: Layer, sides: Sides, tolerance: Float[np.ndarray, " neurons"]) -> Split:
        """Split every cell by all neurons, in rounds: the r-th cuts each cell by the r-th of its neurons."""
        listed = np.nonzero(sides.cut)[1]
        length = sides.cut.sum(axis=1)
        first = np.concatenate([[0], np.cumsum(length)[:-1]])
        cells, parents, gates = self, np.arange(len(self)), sides.positive.copy()
        done: list[tuple[Cells, np.ndarray, np.ndarray]] = []
        for round_ in range(int(length.max(initial=0))):
            going = length[parents] > round_
            if not going.all():
                rest = np.flatnonzero(~going)
                done.append((cells.take(rest), parents[rest], gates[rest]))
                going = np.flatnonzero(going)
                cells, parents, gates = cells.take(going), parents[going], gates[going]
            neuron = listed[first[parents] + round_]
            side, positive, negative = cells.cut(z[parents, :, neuron], tolerance[neuron])
            both = np.flatnonzero(side == BOTH)
            gates[np.arange(len(gates)), neuron] = side > 0
            if len(both):
                below = gates[both]
                below[np.arange(len(both)), neuron[both]] = False
                whole = np.flatnonzero(side != BOTH)
                order = np.concatenate([whole, both])
                cells = cells.take(whole).joined([positive, negative])
                parents = np.concatenate([parents[order], parents[both]])
                gates = np.concatenate([gates[order], below])
        done.append((cells, parents, gates))
        kinds, origins, found = zip(*done, strict=True)
        return Split(kinds[0].joined(kinds[1:]), np.concatenate(origins), np.concatenate(found))

    def largest(
        self,
        z: Layer,
        groups: Int[np.ndarray, "groups members"],
        tolerance: Float[np.ndarray, " neurons"],
    ) -> Split:
        """Split every cell so that one member of each group is the largest; the sides are the members.

        A cell is copied for every member that may win and clipped to where it does, so that nothing is cut
        where a third member is larger than two others. Of members that are equal throughout, the last wins.
        """
        cells, parents = self, np.arange(len(self))
        winners = np.zeros((len(self), len(groups)), int)
        for place, group in enumerate(groups):
            members = np.flatnonzero(group >= 0)
            if len(members) == 1:
                winners[:, place] = members[0]
                continue
            rivals = z[parents[:, None, None], np.arange(z.shape[1])[:, None], group[members]]
            allowed = tolerance[group[members]]
            may_win = cells._may_win(rivals, allowed)
            winners[:, place] = members[np.argmax(may_win, axis=1)]
            open_ = may_win.sum(axis=1) > 1
            if not open_.any():
                continue
            decided = np.flatnonzero(~open_)
            parts, kept, names = [], [decided], [winners[decided, place]]
            for member in range(len(members)):
                index = np.flatnonzero(open_ & may_win[:, member])
                part, inside = cells.take(index)._where_largest(rivals[index], member, allowed)
                parts.append(part)
                kept.append(index[inside])
                names.append(np.full(len(inside), members[member]))
            cells, order = cells.take(decided).joined(parts), np.concatenate(kept)
            parents, winners = parents[order], winners[order]
            winners[:, place] = np.concatenate(names)
        return Split(cells, parents, winners)

    def _may_win(self, rivals: np.ndarray, tolerance: np.ndarray) -> np.ndarray:
        """Which members of a group (cells, members) are not below another one on the whole cell."""
        first, second = np.triu_indices(rivals.shape[2], 1)
        allowed = np.maximum(tolerance[first], tolerance[second])
        cut, positive = self.sides(rivals[:, :, first] - rivals[:, :, second], allowed)
        beaten = np.zeros((len(self), rivals.shape[2]), bool)
        for pair, (i, k) in enumerate(zip(first, second, strict=True)):
            beaten[:, i] |= ~cut[:, pair] & ~positive[:, pair]
            beaten[:, k] |= ~cut[:, pair] & positive[:, pair]
        return ~beaten | beaten.all(axis=1, keepdims=True)

    def _where_largest(
        self: AnyCells, rivals: np.ndarray, member: int, tolerance: np.ndarray
    ) -> tuple[AnyCells, np.ndarray]:
        """The parts of the cells in which one member of a group is the largest, and where they came from."""
        cells, index = self, np.arange(len(self))
        for other in range(rivals.shape[2]):
            if other == member or not len(index):
                continue
            g = rivals[index, :, member] - rivals[index, :, other]
            allowed = np.full(len(index), max(tolerance[member], tolerance[other]))
            side, positive, _ = cells.cut(g, allowed)
            whole = np.flatnonzero((side == 1) | ((side == 0) & (member > other)))
            order = np.concatenate([whole, np.flatnonzero(side == BOTH)])
            cells, index = cells.take(whole).joined([positive]), index[order]
        return cells, index
