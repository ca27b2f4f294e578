"""How to initialise and train a network."""

from finitewidth.tuning.advice import Tuning, tune
from finitewidth.tuning.propagation import Propagation
from finitewidth.tuning.residual import BlockSignals, ResidualTuning, tune_residual

__all__ = ["BlockSignals", "Propagation", "ResidualTuning", "Tuning", "tune", "tune_residual"]
