"""Figures and reports."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.report.figures import phase_figure, save_figure, tuning_figure

__all__, __getattr__ = exports(__name__, __file__)
