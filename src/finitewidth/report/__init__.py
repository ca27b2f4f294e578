"""Figures and reports."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.report.coordinate_figure import coordinate_figure
    from finitewidth.report.figures import phase_figure, save_figure, tuning_figure
    from finitewidth.report.region_figures import history_figure, line_figure, plane_figure
    from finitewidth.report.residual_figure import residual_tuning_figure

__all__, __getattr__ = exports(__name__, __file__)
