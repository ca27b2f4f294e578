"""Random attention networks, their token correlations, and stacks of layers to be measured."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.architectures.networks.token_correlations import drawn_token_correlations

__all__, __getattr__ = exports(__name__, __file__)
