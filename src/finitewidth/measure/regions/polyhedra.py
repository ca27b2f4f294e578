"""Convex polyhedra in any dimension, each with a point inside, cut with linear programs."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy.optimize import linprog

from finitewidth.measure.regions.cells import BOTH, Cells, Functions, Layer, Sides

# A cell is one if a ball of this radius fits into its cone within the unit cube.
_SMALLEST = 1e-9
# A known point that is so far inside saves a linear program.
_WELL_INSIDE = 1e-3


class Polyhedra(Cells):
    """Cones A (u, w) >= 0 over cells, with rows of length one, and a point (u, w) inside each of them.

    The cell is the part of the cone at w = 1. A cone has no size, so that cells far out, where hyperplanes
    that are nearly parallel meet, are found like all others.
    """

    def __init__(
        self, inequalities: list[np.ndarray], inside: Float[np.ndarray, "cells coordinates"], most: int
    ):
        self.inequalities, self.inside, self.most = inequalities, inside, most

    @classmethod
    def everything(cls, dimensions: int, most: int) -> "Polyhedra":
        """The whole space, of which at most so many cells are wanted."""
        row = np.append(np.zeros(dimensions), 1.0)
        return cls([row[None]], row[None].copy(), most)

    def __len__(self) -> int:
        return len(self.inequalities)

    def reach(self) -> np.ndarray:
        return np.ones(self.inside.shape[1])

    def take(self, index: np.ndarray | slice) -> "Polyhedra":
        chosen = np.arange(len(self))[index]
        return Polyhedra([self.inequalities[i] for i in chosen], self.inside[index], self.most)

    def joined(self, others: Sequence["Polyhedra"]) -> "Polyhedra":
        parts = [self, *others]
        cells = [rows for part in parts for rows in part.inequalities]
        if len(cells) > self.most:
            raise ValueError(
                f"this network has more than most_cells={self.most} cells: raise most_cells, or look at the "
                "regions of a plane, which take microseconds each."
            )
        return Polyhedra(cells, np.concatenate([part.inside for part in parts]), self.most)

    def sides(self, z: Layer, tolerance: np.ndarray) -> Sides:
        sloped = np.abs(z[:, :-1]).max(axis=1) > tolerance
        value = np.einsum("ck,ckn->cn", self.inside, z)
        return Sides(sloped, value > tolerance)

    def cut(self, g: Functions, tolerance: np.ndarray) -> tuple[np.ndarray, "Polyhedra", "Polyhedra"]:
        side, halves = np.empty(len(self), int), ([], [])
        for cell, (rows, function) in enumerate(zip(self.inequalities, g, strict=True)):
            if np.abs(function).max() <= tolerance[cell]:
                side[cell] = 0
                continue
            plane = function / np.linalg.norm(function)
            cut = [np.vstack([rows, sign * plane]) for sign in (1, -1)]
            inside = [_point_inside(part, self.inside[cell]) for part in cut]
            exists = [point is not None for point in inside]
            side[cell] = BOTH if all(exists) else (1 if exists[0] else -1)
            if all(exists):
                for half, part, point in zip(halves, cut, inside, strict=True):
                    half.append((part, point))
        return side, self._of(halves[0]), self._of(halves[1])

    def _of(self, half: list) -> "Polyhedra":
        inside = np.array([point for _, point in half]).reshape(len(half), self.inside.shape[1])
        return Polyhedra([rows for rows, _ in half], inside, self.most)


def _point_inside(rows: np.ndarray, known: np.ndarray) -> np.ndarray | None:
    """The middle of the largest ball in a cone and the unit cube, or None if none but the smallest fits."""
    if np.all(rows @ known > _WELL_INSIDE):
        return known
    answer = linprog(
        np.append(np.zeros(rows.shape[1]), -1.0),
        A_ub=np.c_[-rows, np.ones(len(rows))],
        b_ub=np.zeros(len(rows)),
        bounds=[(-1.0, 1.0)] * rows.shape[1] + [(0.0, 1.0)],
        method="highs",
    )
    return answer.x[:-1] if answer.status == 0 and answer.x[-1] > _SMALLEST else None
