"""How many linear regions a ReLU network can have, and how many a random one has."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.linear_regions.theory.linear_regions import (
        expected_breakpoints,
        hyperplane_cells,
        line_breakpoints,
        most_regions,
        reachable_regions,
        sawtooth_pieces,
        wide_breakpoints,
    )

__all__, __getattr__ = exports(__name__, __file__)
