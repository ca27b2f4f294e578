"""How the number of regions changes while a network learns."""

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int, PyTree

from finitewidth.measure.regions.network import piecewise_linear
from finitewidth.measure.regions.plane import Plane, plane_regions


class RegionHistory(NamedTuple):
    """The cells of one polygon of a plane at every checkpoint of a training.

    Attributes
    ----------
    cells
        How many there are.
    median_areas
        Half of the cells are smaller.
    """

    cells: Int[np.ndarray, " checkpoints"]
    median_areas: Float[np.ndarray, " checkpoints"]


def regions_in_training(model: Any, checkpoints: Iterable[PyTree], plane: Plane) -> RegionHistory:
    """Count the cells of a plane at every checkpoint.

    Parameters
    ----------
    model
        Any piecewise-linear network, as `piecewise_linear` takes it.
    checkpoints
        Parameters, or state dicts of a PyTorch module, in the order of training.
    plane
        From `as_plane` or `plane_through`.
    """
    found = [
        plane_regions(piecewise_linear(model, plane.origin.shape, params=params), plane)
        for params in checkpoints
    ]
    if not found:
        raise ValueError("checkpoints is empty: there is nothing to count.")
    cells = np.array([regions.number for regions in found])
    return RegionHistory(cells, np.array([float(np.median(regions.areas)) for regions in found]))
