"""Figures and reports."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.report.coordinate_figure import coordinate_figure
    from finitewidth.report.region_figures import history_figure, line_figure, plane_figure

__all__, __getattr__ = exports(__name__, __file__)
