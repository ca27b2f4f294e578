"""The Marchenko-Pastur law of random matrices."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.deep_linear_networks.theory.marchenko_pastur import MarchenkoPastur

__all__, __getattr__ = exports(__name__, __file__)
