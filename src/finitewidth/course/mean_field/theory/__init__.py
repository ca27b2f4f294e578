"""A hidden layer as a measure of neurons: populations, fluctuations, optimal transport."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.mean_field.theory.fluctuations import (
        MeanFieldFluctuations,
        mean_field_fluctuations,
    )
    from finitewidth.course.mean_field.theory.population import (
        NeuronPopulation,
        PopulationPath,
        infinite_population,
        neuron_population,
        sampled_population,
    )
    from finitewidth.course.mean_field.theory.transport import (
        MinimisingMovement,
        Transport,
        minimising_movement,
        potential_curvature,
        wasserstein,
    )

__all__, __getattr__ = exports(__name__, __file__)
