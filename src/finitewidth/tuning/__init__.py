"""How to initialise and train a network."""

from finitewidth.tuning.advice import Tuning, tune
from finitewidth.tuning.convolutional import ConvolutionalTuning, tune_convolutional
from finitewidth.tuning.propagation import Propagation
from finitewidth.tuning.residual import BlockSignals, ResidualTuning, tune_residual
from finitewidth.tuning.residual_depth import ResidualDepth

__all__ = [
    "BlockSignals", "ConvolutionalTuning", "Propagation", "ResidualDepth", "ResidualTuning", "Tuning",
    "tune", "tune_convolutional", "tune_residual",
]  # fmt: skip
