"""Networks at initialisation: what random weights make of the inputs."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.statistics.depth.criticality import (
        Criticality,
        DepthExponents,
        Susceptibilities,
        criticality,
        susceptibilities,
    )
    from finitewidth.statistics.depth.phases import (
        CorrelationLengths,
        PhaseDiagram,
        correlation_lengths,
        fixed_point,
        phase_diagram,
    )
    from finitewidth.statistics.exact.deep_linear import ChiSquareProduct, LogNormal, WeightNorm, weight_norm
    from finitewidth.statistics.exact.paths import (
        NTKMoments,
        ntk_moments,
        ntk_ratio_limit,
        path_count,
        path_sum,
    )
    from finitewidth.statistics.first_order.corrections import Corrections, corrections
    from finitewidth.statistics.first_order.depth_growth import DepthGrowth, depth_growth, vertex_slope
    from finitewidth.statistics.first_order.residual_corrections import ResidualCorrections
    from finitewidth.statistics.wide.adjustable_kernels import AdjustableKernels, adjustable_kernels
    from finitewidth.statistics.wide.kernels import Kernels, kernels, trajectory
    from finitewidth.statistics.wide.mercer_decomposition import mercer

__all__, __getattr__ = exports(__name__, __file__)
