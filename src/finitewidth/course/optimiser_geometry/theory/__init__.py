"""Steepest descent in a norm, and what optimisers make of rescaled networks."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.optimiser_geometry.theory.rescaling import balance_change, equivariant_rates
    from finitewidth.course.optimiser_geometry.theory.steepest_descent import (
        SteepestStep,
        newton_schulz_steps,
        newton_schulz_values,
        steepest_step,
    )

__all__, __getattr__ = exports(__name__, __file__)
