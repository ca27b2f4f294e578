"""Every activation pattern of a small network, in all dimensions of its inputs."""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Integer, PyTree

from finitewidth._base.checks import check_whole
from finitewidth.architecture.layer import Shape
from finitewidth.measure.regions.execution import execute
from finitewidth.measure.regions.network import piecewise_linear
from finitewidth.measure.regions.patterns import different_maps
from finitewidth.measure.regions.polyhedra import Polyhedra


class AllRegions(NamedTuple):
    """Every cell of a network with n inputs.

    Attributes
    ----------
    patterns
        Activation pattern (cells, neurons) of every cell that is not empty.
    points
        An input (cells, n) inside every cell.
    slopes, offsets
        f = slopes (cells, out, n) @ x + offsets (cells, out).
    """

    patterns: Integer[np.ndarray, "cells neurons"]
    points: Float[np.ndarray, "cells n"]
    slopes: Float[np.ndarray, "cells out n"]
    offsets: Float[np.ndarray, "cells out"]

    @property
    def number(self) -> int:
        """How many cells there are."""
        return len(self.points)

    @property
    def affine_maps(self) -> int:
        """How many different affine maps the cells have: at most their number."""
        return different_maps(np.concatenate([self.slopes, self.offsets[:, :, None]], axis=2))


def all_regions(
    model: Any, entering: Shape | int | None = None, *, params: PyTree | None = None, most_cells: int = 20_000
) -> AllRegions:
    """Every cell of the whole space of inputs, found with linear programs.

    One program takes about a millisecond, and every cell needs up to two for every neuron: a network with 2
    inputs and 20 neurons takes seconds, one with 10 inputs and 100 neurons has more cells than can be listed.

    Parameters
    ----------
    model, entering, params
        Any piecewise-linear network, as `piecewise_linear` takes it.
    most_cells
        Refuse to go on when there are more.
    """
    check_whole("most_cells", most_cells)
    program = piecewise_linear(model, entering, params=params)
    n = program.lengths[0]
    inputs = np.concatenate([np.eye(n), np.zeros((1, n))])[None]
    found = execute(program, Polyhedra.everything(n, most_cells), inputs)
    assert isinstance(found.cells, Polyhedra)
    inside, maps = found.cells.inside, np.swapaxes(found.maps, 1, 2)
    return AllRegions(found.patterns, inside[:, :-1] / inside[:, -1:], maps[:, :, :-1], maps[:, :, -1])
