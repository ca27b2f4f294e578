"""`finitewidth serve`: the laboratory in the browser. Its pages are made of these parts."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.serve.page import Experiment, Figure, Page
    from finitewidth.serve.state import Choice, Slider

__all__, __getattr__ = exports(__name__, __file__)
