"""Every region of a network in a plane, or in a polygon of it."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Integer, PyTree

from finitewidth.measure.regions.execution import execute
from finitewidth.measure.regions.neighbours import Neighbours, find_neighbours
from finitewidth.measure.regions.network import piecewise_linear
from finitewidth.measure.regions.patterns import different_maps, different_rows
from finitewidth.measure.regions.polygons import Polygons, areas, centroids

_FLAT = 1e-10


class Plane(NamedTuple):
    """The inputs x = origin + u_1 directions[0] + u_2 directions[1].

    `corners` (corners, 2) is the convex polygon of coordinates u that is looked at.
    """

    origin: np.ndarray
    directions: np.ndarray
    corners: Float[np.ndarray, "corners 2"]

    def inputs(self, u: Float[np.ndarray, "points 2"]) -> np.ndarray:
        """The inputs (points, ...) at some coordinates."""
        return self.origin + np.tensordot(u, self.directions, axes=1)

    def coordinates(self, x: np.ndarray) -> Float[np.ndarray, "points 2"]:
        """The coordinates u of inputs (points, ...), of the nearest point for those beside the plane."""
        away = (x - self.origin).reshape(len(x), -1)
        return np.linalg.lstsq(self.directions.reshape(2, -1).T, away.T, rcond=None)[0].T


class PlaneRegions(NamedTuple):
    """The cells of a plane on which the network is affine, one for each activation pattern.

    Attributes
    ----------
    plane
        The plane and the polygon of it that was cut into cells.
    corners
        Corners (cells, most, 2) of every cell in order; what follows the last repeats the first.
    counts
        How many corners each cell has.
    patterns
        Activation pattern (cells, neurons): 1 for an open gate, 0 for a shut one; the winner of a maximum.
    slopes, offsets
        The affine map of every cell: f = slopes (cells, out, 2) @ u + offsets (cells, out).
    """

    plane: Plane
    corners: Float[np.ndarray, "cells most 2"]
    counts: Int[np.ndarray, " cells"]
    patterns: Integer[np.ndarray, "cells neurons"]
    slopes: Float[np.ndarray, "cells out 2"]
    offsets: Float[np.ndarray, "cells out"]

    @property
    def number(self) -> int:
        """How many cells there are."""
        return len(self.counts)

    @property
    def areas(self) -> Float[np.ndarray, " cells"]:
        """Areas in the coordinates u."""
        return areas(self._raised)

    @property
    def centroids(self) -> Float[np.ndarray, "cells 2"]:
        """Centre of every cell, in the coordinates u."""
        return centroids(self._raised)

    @property
    def outputs(self) -> Float[np.ndarray, "cells out"]:
        """The network's outputs at the centres."""
        return np.einsum("cou,cu->co", self.slopes, self.centroids) + self.offsets

    @property
    def density(self) -> float:
        """Cells per unit of area."""
        return self.number / float(areas(_raise(self.plane.corners[None]))[0])

    @property
    def affine_maps(self) -> int:
        """How many different affine maps the cells have: at most their number."""
        return different_maps(np.concatenate([self.slopes, self.offsets[:, :, None]], axis=2))

    def cell(self, number: int) -> Float[np.ndarray, "corners 2"]:
        """The corners of one cell."""
        return self.corners[number, : self.counts[number]]

    def neighbours(self) -> Neighbours:
        """Which cells share an edge, where it lies, and which neuron changes there."""
        return find_neighbours(self.corners, self.counts, self.patterns, self.plane.corners)

    @property
    def _raised(self) -> np.ndarray:
        return _raise(self.corners)


class WholePlaneRegions(NamedTuple):
    """The cells of a whole plane, bounded and unbounded.

    Attributes
    ----------
    plane
        The plane; its polygon plays no part.
    patterns, slopes, offsets
        As in `PlaneRegions`.
    areas
        Areas in the coordinates u, infinite for unbounded cells.
    points
        A point (cells, 2) inside every cell.
    """

    plane: Plane
    patterns: Integer[np.ndarray, "cells neurons"]
    slopes: Float[np.ndarray, "cells out 2"]
    offsets: Float[np.ndarray, "cells out"]
    areas: Float[np.ndarray, " cells"]
    points: Float[np.ndarray, "cells 2"]

    @property
    def number(self) -> int:
        """How many cells there are."""
        return len(self.areas)

    @property
    def bounded(self) -> int:
        """How many of them are bounded."""
        return int(np.isfinite(self.areas).sum())


def as_plane(origin: Any, directions: Any, polygon: Any = 1.0) -> Plane:
    """A plane by a point and two directions, refused if they span none.

    `polygon` is half the side of a square around the origin, or the corners (corners, 2) of a convex polygon.
    """
    origin, directions = np.asarray(origin, float), np.asarray(directions, float)
    if directions.shape != (2, *origin.shape):
        raise ValueError(
            f"directions must be two inputs, of shape {(2, *origin.shape)}, got {directions.shape}."
        )
    if not (np.isfinite(origin).all() and np.isfinite(directions).all()):
        raise ValueError("origin and directions must be finite.")
    lengths = np.linalg.norm(directions.reshape(2, -1), axis=1)
    if not lengths.all():
        raise ValueError(f"direction {int(np.argmin(lengths))} is zero: a plane needs two directions.")
    sine = np.linalg.svd(directions.reshape(2, -1) / lengths[:, None], compute_uv=False)[-1]
    if sine < _FLAT:
        raise ValueError("the two directions are parallel: they span a line, not a plane.")
    return Plane(origin, directions, _as_polygon(polygon))


def plane_through(points: Any, margin: float = 0.25) -> Plane:
    """The plane through three inputs (3, ...), with orthonormal directions.

    It is looked at in the smallest square along its first side that holds all three, wider by `margin` times
    its side on every side.
    """
    points = np.asarray(points, float)
    if points.ndim < 2 or len(points) != 3:
        raise ValueError(f"a plane goes through three points, an array (3, ...), got shape {points.shape}.")
    first, second = (points[i].reshape(-1) - points[0].reshape(-1) for i in (1, 2))
    length = np.linalg.norm(first)
    if not length:
        raise ValueError("the first two points are the same: there is no plane through them.")
    along = first / length
    across = second - (second @ along) * along
    height = np.linalg.norm(across)
    if height <= _FLAT * max(length, float(np.linalg.norm(second))):
        raise ValueError("the three points lie on one line: there is no plane through them.")
    directions = np.stack([along, across / height]).reshape(2, *points.shape[1:])
    u = np.array([[0.0, 0.0], [length, 0.0], [second @ along, height]])
    middle = (u.max(axis=0) + u.min(axis=0)) / 2
    half = (0.5 + margin) * float(np.ptp(u, axis=0).max())
    return as_plane(points[0], directions, middle + half * _SQUARE)


def plane_regions(model: Any, plane: Plane, *, params: PyTree | None = None) -> PlaneRegions:
    """Every cell of a polygon of a plane on which the network is affine: exact, there is no grid.

    Parameters
    ----------
    model
        Any piecewise-linear network, as `piecewise_linear` takes it.
    plane
        From `as_plane` or `plane_through`.
    params
        The weights of a model that does not carry them.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> from finitewidth.measure import regions
    >>> net = fw.MLP(hidden=(16, 16), activation="relu", C_b=0.1, C_W=2.0)
    >>> plane = regions.as_plane([0.0, 0.0], [[1.0, 0.0], [0.0, 1.0]], polygon=3.0)
    >>> found = regions.plane_regions(net, plane, params=net.init(jax.random.key(0), 2))
    >>> bool(abs(found.areas.sum() - 36) < 1e-12)
    True
    """
    program = piecewise_linear(model, plane.origin.shape, params=params)
    found = execute(program, Polygons.start(_raise(plane.corners[None])), _as_inputs(plane, 1))
    cells = found.cells
    assert isinstance(cells, Polygons)
    maps = np.swapaxes(found.maps, 1, 2)
    return PlaneRegions(
        plane, cells.corners[:, :, :2], cells.count, found.patterns, maps[:, :, :2], maps[:, :, 2]
    )


def whole_plane_regions(model: Any, plane: Plane, *, params: PyTree | None = None) -> WholePlaneRegions:
    """Every cell of a whole plane, also those that reach to infinity.

    No box is large enough to hold all cells and small enough to keep the digits of the small ones, so the
    four quadrants are cut as triangles with two corners at infinity. Parts of one cell have one pattern.
    """
    program = piecewise_linear(model, plane.origin.shape, params=params)
    axes = [
        ((1, 0, 0), (0, 1, 0)),
        ((0, 1, 0), (-1, 0, 0)),
        ((-1, 0, 0), (0, -1, 0)),
        ((0, -1, 0), (1, 0, 0)),
    ]
    quadrants = np.array([[(0, 0, 1), one, other] for one, other in axes], float)
    found = execute(program, Polygons.start(quadrants), _as_inputs(plane, 4))
    cells = found.cells
    assert isinstance(cells, Polygons)
    first, which = different_rows(found.patterns)
    inside = np.stack(
        [corners[:n].sum(axis=0) for corners, n in zip(cells.corners, cells.count, strict=True)]
    )
    total = np.bincount(which, weights=areas(cells.corners), minlength=len(first))
    maps = np.swapaxes(found.maps, 1, 2)[first]
    points = (inside[:, :2] / inside[:, 2:])[first]
    return WholePlaneRegions(plane, found.patterns[first], maps[:, :, :2], maps[:, :, 2], total, points)


_SQUARE = np.array([[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]])


def _as_polygon(polygon: Any) -> np.ndarray:
    corners = np.asarray(polygon, float)
    if corners.ndim == 0:
        if not 0 < corners < np.inf:
            raise ValueError(
                f"polygon must be half the side of a square, a positive number, got {polygon!r}."
            )
        return float(corners) * _SQUARE
    if corners.ndim != 2 or corners.shape[1] != 2 or len(corners) < 3 or not np.isfinite(corners).all():
        raise ValueError(f"polygon must be finite corners (corners, 2), at least three, got {corners.shape}.")
    edge = np.roll(corners, -1, axis=0) - corners
    following = np.roll(edge, -1, axis=0)
    turns = edge[:, 0] * following[:, 1] - edge[:, 1] * following[:, 0]
    around = np.arctan2(turns, np.sum(edge * following, axis=1)).sum()
    if not ((turns > 0).all() or (turns < 0).all()) or abs(abs(around) - 2 * np.pi) > 1e-6:
        raise ValueError("polygon must be convex, with its corners in order and no three on one line.")
    return corners


def _as_inputs(plane: Plane, cells: int) -> Float[np.ndarray, "cells 3 n"]:
    rows = np.stack([*plane.directions.reshape(2, -1), plane.origin.reshape(-1)])
    return np.repeat(rows[None], cells, axis=0)


def _raise(corners: np.ndarray) -> np.ndarray:
    return np.concatenate([corners, np.ones((*corners.shape[:-1], 1))], axis=-1)
