"""How to initialise and train a network."""

from finitewidth.advice.tuning.advice import Tuning, tune
from finitewidth.advice.tuning.convolutional import ConvolutionalTuning, tune_convolutional
from finitewidth.advice.tuning.propagation import Propagation
from finitewidth.advice.tuning.residual import BlockSignals, ResidualTuning, tune_residual
from finitewidth.advice.tuning.residual_depth import ResidualDepth

__all__ = [
    "BlockSignals", "ConvolutionalTuning", "Propagation", "ResidualDepth", "ResidualTuning", "Tuning",
    "tune", "tune_convolutional", "tune_residual",
]  # fmt: skip
