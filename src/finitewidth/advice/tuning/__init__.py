"""How to initialise and train a network."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.advice.tuning.advice import Tuning, tune
    from finitewidth.advice.tuning.convolutional import ConvolutionalTuning, tune_convolutional
    from finitewidth.advice.tuning.figures import phase_figure, save_figure, tuning_figure
    from finitewidth.advice.tuning.propagation import Propagation
    from finitewidth.advice.tuning.residual import BlockSignals, ResidualTuning, tune_residual
    from finitewidth.advice.tuning.residual_depth import ResidualDepth
    from finitewidth.advice.tuning.residual_figure import residual_tuning_figure

__all__, __getattr__ = exports(__name__, __file__)
