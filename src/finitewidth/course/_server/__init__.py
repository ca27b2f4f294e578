"""`finitewidth serve`: the laboratory in the browser. Its pages are made of these parts."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course._server.page import Experiment, Figure, Page
    from finitewidth.course._server.state import Choice, Slider

__all__, __getattr__ = exports(__name__, __file__)
