"""What can be measured on any network: ours, a JAX function, a Flax or Equinox model, a PyTorch module.

Everything here takes a `Specimen`: a network at its weights, with data and a loss.
"""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.measure.phases import TrainingPhase, TrainingPhases, training_phases
    from finitewidth.measure.sites import Site
    from finitewidth.measure.specimen import Specimen, specimen
    from finitewidth.measure.stability import EdgeOfStability, edge_of_stability, stability_limit

__all__, __getattr__ = exports(__name__, __file__)
