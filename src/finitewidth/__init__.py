"""The distribution of trained networks, at infinite width and to first order in 1/width.

Importing the package switches JAX to 64-bit floating point; arrays passed in as float32 stay so.
"""

import importlib

import jax

jax.config.update("jax_enable_x64", True)

from finitewidth.activations import ACTIVATION_NAMES, Activation
from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import DirectOptimization, GradientDescent, GradientFlow
from finitewidth.dynamics.machine import nearly_kernel_machine
from finitewidth.dynamics.nearly_kernel import NearlyKernel, nearly_kernel
from finitewidth.dynamics.tangent_model import TangentModel
from finitewidth.dynamics.taylor_models import CubicModel, LinearModel, QuadraticModel
from finitewidth.networks.control_variates import paired_ensemble
from finitewidth.networks.differentials import DDNTK, empirical_ddntk, empirical_dntk
from finitewidth.networks.ensembles import Ensemble, train_ensemble
from finitewidth.networks.tangent_kernel import empirical_ntk, empirical_ntk_by_group
from finitewidth.networks.taylor import expand
from finitewidth.networks.training import Training, train
from finitewidth.prediction.bayesian import BayesianInference, evidence
from finitewidth.prediction.curves import LossCurves, loss_curves
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.finite_width import DenseTensors
from finitewidth.prediction.infinite_width import TrainingProblem
from finitewidth.prediction.predict import predict
from finitewidth.prediction.sampled_mean import SampledNeurons
from finitewidth.saving import load
from finitewidth.statistics.corrections import Corrections, corrections
from finitewidth.statistics.criticality import criticality, susceptibilities
from finitewidth.statistics.depth_growth import DepthGrowth, depth_growth, vertex_slope
from finitewidth.statistics.kernels import Kernels, kernels, trajectory
from finitewidth.statistics.phases import correlation_lengths, fixed_point, phase_diagram
from finitewidth.tuning import Tuning, tune
from finitewidth.verification.result import Verification
from finitewidth.verification.verify import verify

__all__ = [
    "ACTIVATION_NAMES",
    "DDNTK",
    "MLP",
    "Activation",
    "BayesianInference",
    "Corrections",
    "CubicModel",
    "DenseTensors",
    "DepthGrowth",
    "DirectOptimization",
    "Ensemble",
    "GradientDescent",
    "GradientFlow",
    "Kernels",
    "LinearModel",
    "LossCurves",
    "NearlyKernel",
    "QuadraticModel",
    "SampledNeurons",
    "TangentModel",
    "TrainedDistribution",
    "Training",
    "TrainingProblem",
    "Tuning",
    "Verification",
    "corrections",
    "correlation_lengths",
    "criticality",
    "depth_growth",
    "empirical_ddntk",
    "empirical_dntk",
    "empirical_ntk",
    "empirical_ntk_by_group",
    "evidence",
    "expand",
    "fixed_point",
    "kernels",
    "load",
    "loss_curves",
    "nearly_kernel",
    "nearly_kernel_machine",
    "paired_ensemble",
    "phase_diagram",
    "predict",
    "susceptibilities",
    "train",
    "train_ensemble",
    "trajectory",
    "tune",
    "verify",
    "vertex_slope",
]

_ON_DEMAND = {"lab": "finitewidth.lab", "estimators": "finitewidth.prediction.estimators"}


def __getattr__(name: str):
    """Modules that bring matplotlib or scikit-learn with them are imported when first asked for."""
    if name in _ON_DEMAND:
        return importlib.import_module(_ON_DEMAND[name])
    raise AttributeError(f"module 'finitewidth' has no attribute {name!r}")
