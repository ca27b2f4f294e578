"""The distribution of trained networks, at infinite width and to first order in 1/width.

The front page:

- `MLP`, `Sequential`: a network;
- `kernels`: its kernels at infinite width;
- `criticality`: where its activation keeps signals and gradients alive;
- `predict`: the law of what trained networks answer;
- `verify`: that law against real networks;
- `train`: one network, trained;
- `tune`: how to initialise and train yours;
- `diagnose`: what is wrong with the one you have;
- `lab`: every theorem with its prediction, its measurement and the verdict.

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

from finitewidth._base.lazy import exports
from finitewidth._base.moved import find_old_packages

if TYPE_CHECKING:
    from finitewidth.advice.diagnosis.examination import diagnose
    from finitewidth.advice.diagnosis.result import Diagnosis
    from finitewidth.advice.tuning.advice import Tuning, tune
    from finitewidth.advice.tuning.convolutional import ConvolutionalTuning, tune_convolutional
    from finitewidth.advice.tuning.residual import ResidualTuning, tune_residual
    from finitewidth.algorithms.direct_optimization import DirectOptimization
    from finitewidth.algorithms.gradient_descent import GradientDescent
    from finitewidth.algorithms.gradient_flow import GradientFlow
    from finitewidth.architecture.activate import Activate
    from finitewidth.architecture.activations import ACTIVATION_NAMES, Activation
    from finitewidth.architecture.attention import SelfAttention
    from finitewidth.architecture.concat import Concat
    from finitewidth.architecture.convolution import Conv
    from finitewidth.architecture.dense import Dense
    from finitewidth.architecture.dropout import Dropout
    from finitewidth.architecture.image_networks import ConvNet, ResNet
    from finitewidth.architecture.layer import Layer
    from finitewidth.architecture.mlp import MLP
    from finitewidth.architecture.models.tangent_model import TangentModel
    from finitewidth.architecture.models.taylor_models import CubicModel, LinearModel, QuadraticModel
    from finitewidth.architecture.normalisation import LayerNorm, RMSNorm
    from finitewidth.architecture.pooling import AveragePool, Flatten, GlobalAveragePool
    from finitewidth.architecture.product import Product
    from finitewidth.architecture.residual import Residual
    from finitewidth.architecture.residual_mlp import ResidualMLP
    from finitewidth.architecture.saving import load
    from finitewidth.architecture.scale import Scale
    from finitewidth.architecture.sequential import Repeat, Sequential
    from finitewidth.architecture.spec import network
    from finitewidth.architecture.sums import Sum
    from finitewidth.architecture.transformer import Transformer
    from finitewidth.estimators.gpjax_kernel import gpjax_kernel
    from finitewidth.nearly_kernel_methods.model_prediction import nearly_kernel_machine
    from finitewidth.nearly_kernel_methods.prediction import NearlyKernel, nearly_kernel
    from finitewidth.networks.tangent.differentials import DDNTK, empirical_ddntk, empirical_dntk
    from finitewidth.networks.tangent.monte_carlo import MonteCarloKernels, monte_carlo_kernels
    from finitewidth.networks.tangent.tangent_kernel import empirical_ntk, empirical_ntk_by_group
    from finitewidth.networks.tangent.tangent_products import TangentProducts, empirical_ntk_products
    from finitewidth.networks.tangent.taylor import expand
    from finitewidth.networks.training.control_variates import paired_ensemble
    from finitewidth.networks.training.ensembles import Ensemble, train_ensemble
    from finitewidth.networks.training.pieces import train_in_pieces
    from finitewidth.networks.training.training import Training, train
    from finitewidth.prediction.function_space import FunctionSpaceTraining, train_in_function_space
    from finitewidth.prediction.law.distribution import TrainedDistribution
    from finitewidth.prediction.law.methods import BayesianInference
    from finitewidth.prediction.methods.bayesian.posterior import evidence
    from finitewidth.prediction.methods.first_order.dense.method import DenseTensors
    from finitewidth.prediction.methods.first_order.sampled.method import SampledNeurons
    from finitewidth.prediction.methods.infinite_width.curves import LossCurves, loss_curves
    from finitewidth.prediction.methods.infinite_width.given_kernels import predict_from_kernels
    from finitewidth.prediction.methods.kinks.method import KinkWindows
    from finitewidth.prediction.methods.mean_field.method import MeanField
    from finitewidth.prediction.predict import predict
    from finitewidth.prediction.problem.training_problem import TrainingProblem
    from finitewidth.statistics.depth.criticality import criticality, susceptibilities
    from finitewidth.statistics.depth.phases import correlation_lengths, fixed_point, phase_diagram
    from finitewidth.statistics.first_order.corrections import Corrections, corrections
    from finitewidth.statistics.first_order.depth_growth import DepthGrowth, depth_growth, vertex_slope
    from finitewidth.statistics.first_order.residual_corrections import ResidualCorrections
    from finitewidth.statistics.wide.adjustable_kernels import AdjustableKernels, adjustable_kernels
    from finitewidth.statistics.wide.kernels import Kernels, kernels, trajectory
    from finitewidth.statistics.wide.rounding import KernelRounding, kernel_rounding
    from finitewidth.verification.result import Verification
    from finitewidth.verification.trained_networks import TrainedNetworks
    from finitewidth.verification.verify import verify

    __version__: str

__all__, _public = exports(__name__, __file__)
find_old_packages()


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
