"""Networks trained at many step sizes, and the phase that each one shows."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.large_learning_rates.networks.phases import (
        TrainingPhase,
        TrainingPhases,
        training_phases,
    )

__all__, __getattr__ = exports(__name__, __file__)
