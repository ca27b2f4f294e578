"""What can be measured on any network: ours, a JAX function, a Flax or Equinox model, a PyTorch module.

Everything here takes a `Specimen`: a network at its weights, with data and a loss.
"""

from typing import TYPE_CHECKING

from finitewidth.lazy import exports

# Functions that bear the name of their module: bound here, they are what the name means whoever came first.
from finitewidth.measure.coordinate_check import coordinate_check
from finitewidth.measure.fluctuation_dissipation import fluctuation_dissipation
from finitewidth.measure.gradient_noise import gradient_noise
from finitewidth.measure.influence import influence
from finitewidth.measure.kappa import kappa
from finitewidth.measure.laziness import laziness
from finitewidth.measure.leave_one_out import leave_one_out
from finitewidth.measure.margins import margins
from finitewidth.measure.signals import signals
from finitewidth.measure.specimen import specimen

if TYPE_CHECKING:
    from finitewidth.measure.candidates import Candidates, Levels
    from finitewidth.measure.checks import check_function_of_one_input
    from finitewidth.measure.class_structure import Attribution, ClassStructure, Factored, class_structure
    from finitewidth.measure.collapse import Collapse, collapse
    from finitewidth.measure.coordinate_check import CoordinateCheck, coordinate_check
    from finitewidth.measure.density import SpectralDensity, spectral_density, trace
    from finitewidth.measure.faults import Classes, Evidence, Fault, Step, find_faults
    from finitewidth.measure.fluctuation_dissipation import FluctuationDissipation, fluctuation_dissipation
    from finitewidth.measure.gradient_noise import GradientNoise, gradient_noise
    from finitewidth.measure.influence import Influence, influence
    from finitewidth.measure.kappa import Kappa, homogeneous_degree, kappa
    from finitewidth.measure.label_noise import LabelNoiseRuns, label_noise_runs
    from finitewidth.measure.layer_structure import (
        ErrorStructure,
        FeatureStructure,
        error_structure,
        feature_structure,
    )
    from finitewidth.measure.laziness import FeatureChange, Laziness, laziness
    from finitewidth.measure.leave_one_out import LeaveOneOut, fit_to_the_end, leave_one_out
    from finitewidth.measure.margins import Margins, margins
    from finitewidth.measure.operators import (
        SymmetricOperator,
        empirical_fisher,
        fisher,
        gauss_newton,
        hessian,
        model_curvature,
        tangent_kernel,
    )
    from finitewidth.measure.outliers import Outliers, TopSpaces, outliers, top_spaces
    from finitewidth.measure.phases import TrainingPhase, TrainingPhases, training_phases
    from finitewidth.measure.sharpness import Sharpness, sharpness_along
    from finitewidth.measure.signals import Signals, SiteSignals, signals
    from finitewidth.measure.sites import Site
    from finitewidth.measure.specimen import Specimen, specimen
    from finitewidth.measure.spectrum import Eigenpairs, eigenpairs, overlap, share_in_space
    from finitewidth.measure.stability import EdgeOfStability, edge_of_stability, stability_limit

__all__, __getattr__ = exports(__name__, __file__)
