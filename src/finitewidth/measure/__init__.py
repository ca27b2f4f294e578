"""What can be measured on any network: ours, a JAX function, a Flax or Equinox model, a PyTorch module.

Everything here takes a `Specimen`: a network at its weights, with data and a loss.
"""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

# Functions that bear the name of their module: bound here, they are what the name means whoever came first.
from finitewidth.measure.layers.coordinate_check import coordinate_check
from finitewidth.measure.layers.signals import signals
from finitewidth.measure.loss.gradient_noise import gradient_noise
from finitewidth.measure.loss.influence import influence
from finitewidth.measure.loss.kappa import kappa
from finitewidth.measure.loss.laziness import laziness
from finitewidth.measure.loss.leave_one_out import leave_one_out
from finitewidth.measure.loss.margins import margins
from finitewidth.measure.specimen import specimen

if TYPE_CHECKING:
    from finitewidth.measure.checks import check_function_of_one_input
    from finitewidth.measure.layers.coordinate_check import CoordinateCheck, coordinate_check
    from finitewidth.measure.layers.faults import Classes, Evidence, Fault, Step, find_faults
    from finitewidth.measure.layers.signals import Signals, SiteSignals, signals
    from finitewidth.measure.loss.candidates import Candidates, Levels
    from finitewidth.measure.loss.class_structure import (
        Attribution,
        ClassStructure,
        Factored,
        class_structure,
    )
    from finitewidth.measure.loss.collapse import Collapse, collapse
    from finitewidth.measure.loss.density import SpectralDensity, spectral_density, trace
    from finitewidth.measure.loss.gradient_noise import GradientNoise, gradient_noise
    from finitewidth.measure.loss.influence import Influence, influence
    from finitewidth.measure.loss.kappa import Kappa, homogeneous_degree, kappa
    from finitewidth.measure.loss.layer_structure import (
        ErrorStructure,
        FeatureStructure,
        error_structure,
        feature_structure,
    )
    from finitewidth.measure.loss.laziness import FeatureChange, Laziness, laziness
    from finitewidth.measure.loss.leave_one_out import LeaveOneOut, fit_to_the_end, leave_one_out
    from finitewidth.measure.loss.margins import Margins, margins
    from finitewidth.measure.loss.operators import (
        SymmetricOperator,
        empirical_fisher,
        fisher,
        gauss_newton,
        hessian,
        model_curvature,
        tangent_kernel,
    )
    from finitewidth.measure.loss.outliers import Outliers, TopSpaces, outliers, top_spaces
    from finitewidth.measure.loss.sharpness import Sharpness, sharpness_along
    from finitewidth.measure.loss.spectrum import Eigenpairs, eigenpairs, overlap, share_in_space
    from finitewidth.measure.loss.stability import EdgeOfStability, edge_of_stability, stability_limit
    from finitewidth.measure.sites import Site
    from finitewidth.measure.specimen import Specimen, specimen

__all__, __getattr__ = exports(__name__, __file__)
