"""Networks trained with noisy labels and noisy steps, and their fluctuation-dissipation balance."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.stochastic_gradients.networks.fluctuation_dissipation import (
        FluctuationDissipation,
        fluctuation_dissipation,
    )
    from finitewidth.course.stochastic_gradients.networks.label_noise import LabelNoiseRuns, label_noise_runs

__all__, __getattr__ = exports(__name__, __file__)
