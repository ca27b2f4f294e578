"""Real networks rescaled, balanced, and trained by steepest descent."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.optimiser_geometry.networks.rescaling import (
        RescaledTraining,
        balance,
        rescale,
        train_rescaled,
    )
    from finitewidth.course.optimiser_geometry.networks.steepest_descent import layer_norms, steepest_descent

__all__, __getattr__ = exports(__name__, __file__)
