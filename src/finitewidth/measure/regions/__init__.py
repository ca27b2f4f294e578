"""The regions of inputs on which a piecewise-linear network is affine: counted and drawn exactly."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.measure.regions.distance import boundary_distance
    from finitewidth.measure.regions.enumeration import AllRegions, all_regions
    from finitewidth.measure.regions.line import LineRegions, line_regions
    from finitewidth.measure.regions.neighbours import Neighbours
    from finitewidth.measure.regions.network import piecewise_linear
    from finitewidth.measure.regions.plane import (
        Plane,
        PlaneRegions,
        WholePlaneRegions,
        as_plane,
        plane_regions,
        plane_through,
        whole_plane_regions,
    )
    from finitewidth.measure.regions.program import Program
    from finitewidth.measure.regions.training import RegionHistory, regions_in_training

__all__, __getattr__ = exports(__name__, __file__)
