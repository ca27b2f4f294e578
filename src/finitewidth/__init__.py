"""The distribution of trained networks, at infinite width and to first order in 1/width.

Importing the package switches JAX to 64-bit floating point; arrays passed in as float32 stay so.
Everything else is imported when it is first used, so that `finitewidth --help` does not wait for JAX.
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:
    # JAX reads this when it is imported, here or by anyone else in the process.
    os.environ["JAX_ENABLE_X64"] = "1"

from finitewidth.lazy import exports

if TYPE_CHECKING:
    from finitewidth.activations import ACTIVATION_NAMES, Activation
    from finitewidth.architecture import (
        MLP,
        Activate,
        AveragePool,
        Concat,
        Conv,
        ConvNet,
        Dense,
        Dropout,
        Flatten,
        GlobalAveragePool,
        Layer,
        LayerNorm,
        Product,
        Repeat,
        Residual,
        ResidualMLP,
        ResNet,
        RMSNorm,
        Scale,
        SelfAttention,
        Sequential,
        Sum,
        Transformer,
        network,
    )
    from finitewidth.diagnosis import Diagnosis, diagnose
    from finitewidth.dynamics import DirectOptimization, GradientDescent, GradientFlow
    from finitewidth.dynamics.function_space import FunctionSpaceTraining, train_in_function_space
    from finitewidth.models import CubicModel, LinearModel, QuadraticModel, TangentModel
    from finitewidth.nearly_kernel_methods import NearlyKernel, nearly_kernel, nearly_kernel_machine
    from finitewidth.networks.control_variates import paired_ensemble
    from finitewidth.networks.differentials import DDNTK, empirical_ddntk, empirical_dntk
    from finitewidth.networks.ensembles import Ensemble, train_ensemble
    from finitewidth.networks.monte_carlo import MonteCarloKernels, monte_carlo_kernels
    from finitewidth.networks.pieces import train_in_pieces
    from finitewidth.networks.tangent_kernel import empirical_ntk, empirical_ntk_by_group
    from finitewidth.networks.tangent_products import TangentProducts, empirical_ntk_products
    from finitewidth.networks.taylor import expand
    from finitewidth.networks.training import Training, train
    from finitewidth.prediction import estimators as estimators
    from finitewidth.prediction.distribution import TrainedDistribution
    from finitewidth.prediction.finite_width.dense.method import DenseTensors
    from finitewidth.prediction.finite_width.kinks.method import KinkWindows
    from finitewidth.prediction.finite_width.mean_field.method import MeanField
    from finitewidth.prediction.finite_width.sampled.method import SampledNeurons
    from finitewidth.prediction.gpjax_kernel import gpjax_kernel
    from finitewidth.prediction.infinite_width.curves import LossCurves, loss_curves
    from finitewidth.prediction.infinite_width.given_kernels import predict_from_kernels
    from finitewidth.prediction.infinite_width.posterior import evidence
    from finitewidth.prediction.methods import BayesianInference
    from finitewidth.prediction.predict import predict
    from finitewidth.prediction.training_problem import TrainingProblem
    from finitewidth.saving import load
    from finitewidth.statistics.adjustable_kernels import AdjustableKernels, adjustable_kernels
    from finitewidth.statistics.corrections import Corrections, corrections
    from finitewidth.statistics.criticality import criticality, susceptibilities
    from finitewidth.statistics.depth_growth import DepthGrowth, depth_growth, vertex_slope
    from finitewidth.statistics.kernels import Kernels, kernels, trajectory
    from finitewidth.statistics.phases import correlation_lengths, fixed_point, phase_diagram
    from finitewidth.statistics.residual_corrections import ResidualCorrections
    from finitewidth.tuning import (
        ConvolutionalTuning,
        ResidualTuning,
        Tuning,
        tune,
        tune_convolutional,
        tune_residual,
    )
    from finitewidth.verification.result import Verification
    from finitewidth.verification.trained_networks import TrainedNetworks
    from finitewidth.verification.verify import verify

    __version__: str

__all__, _public = exports(__name__, __file__)


def __getattr__(name: str) -> Any:
    """A public name or a module of the package, imported when first asked for."""
    if name != "__version__":
        return _public(name)
    globals()[name] = value = _version()
    return value


def _version() -> str:
    metadata = importlib.import_module("importlib.metadata")
    try:
        return metadata.version("finitewidth")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__", "lab"})
