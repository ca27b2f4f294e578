"""The effect of importance weights on what a classifier converges to."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.importance_and_influence.theory.importance_weights import (
        ImportanceEffect,
        importance_effect,
    )

__all__, __getattr__ = exports(__name__, __file__)
