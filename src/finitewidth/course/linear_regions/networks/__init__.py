"""Sawtooth networks, and ReLU programs whose regions are counted."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.linear_regions.networks.sawtooth import sawtooth

__all__, __getattr__ = exports(__name__, __file__)
