"""Networks at initialisation: what random weights make of the inputs."""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.statistics.adjustable_kernels import AdjustableKernels
    from finitewidth.statistics.corrections import Corrections
    from finitewidth.statistics.criticality import (
        Criticality,
        DepthExponents,
        Susceptibilities,
        susceptibilities,
    )
    from finitewidth.statistics.deep_linear import ChiSquareProduct, LogNormal, WeightNorm, weight_norm
    from finitewidth.statistics.depth_growth import DepthGrowth, vertex_slope
    from finitewidth.statistics.eigenvalue_bounds import EigenvalueBounds, ntk_eigenvalue_bounds
    from finitewidth.statistics.jacobians import (
        JacobianMoments,
        LogNorm,
        exponential_growth,
        jacobian_moments,
        log_norm,
    )
    from finitewidth.statistics.kernels import Kernels, trajectory
    from finitewidth.statistics.linear_regions import (
        expected_breakpoints,
        hyperplane_cells,
        line_breakpoints,
        most_regions,
        reachable_regions,
        sawtooth_pieces,
        wide_breakpoints,
    )
    from finitewidth.statistics.marchenko_pastur import MarchenkoPastur
    from finitewidth.statistics.mercer_decomposition import mercer
    from finitewidth.statistics.paths import (
        NTKMoments,
        ntk_moments,
        ntk_ratio_limit,
        path_count,
        path_sum,
    )
    from finitewidth.statistics.phases import (
        CorrelationLengths,
        PhaseDiagram,
        correlation_lengths,
        fixed_point,
        phase_diagram,
    )
    from finitewidth.statistics.token_correlations import token_correlations

__all__, __getattr__ = exports(__name__, __file__)
