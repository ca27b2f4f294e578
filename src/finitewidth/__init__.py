"""The distribution of trained networks, at infinite width and to first order in 1/width.

Importing the package switches JAX to 64-bit floating point; arrays passed in as float32 stay so.
Everything else is imported when it is first used, so that `finitewidth --help` does not wait for JAX.
"""

import functools
import importlib
import importlib.util
import os
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if "jax" in sys.modules:
    sys.modules["jax"].config.update("jax_enable_x64", True)
else:
    # JAX reads this when it is imported, here or by anyone else in the process.
    os.environ["JAX_ENABLE_X64"] = "1"

if TYPE_CHECKING:
    from finitewidth.activations import ACTIVATION_NAMES, Activation
    from finitewidth.architecture import MLP
    from finitewidth.dynamics import DirectOptimization, GradientDescent, GradientFlow
    from finitewidth.models import CubicModel, LinearModel, QuadraticModel, TangentModel
    from finitewidth.nearly_kernel_methods import NearlyKernel, nearly_kernel, nearly_kernel_machine
    from finitewidth.networks.control_variates import paired_ensemble
    from finitewidth.networks.differentials import DDNTK, empirical_ddntk, empirical_dntk
    from finitewidth.networks.ensembles import Ensemble, train_ensemble
    from finitewidth.networks.tangent_kernel import empirical_ntk, empirical_ntk_by_group
    from finitewidth.networks.taylor import expand
    from finitewidth.networks.training import Training, train
    from finitewidth.prediction import estimators as estimators
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

    __version__: str

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

# Where each public name lives.
_HOMES = {
    "activations": ("ACTIVATION_NAMES", "Activation"),
    "architecture": ("MLP",),
    "dynamics": ("DirectOptimization", "GradientDescent", "GradientFlow"),
    "models": ("CubicModel", "LinearModel", "QuadraticModel", "TangentModel"),
    "nearly_kernel_methods": ("NearlyKernel", "nearly_kernel", "nearly_kernel_machine"),
    "networks.control_variates": ("paired_ensemble",),
    "networks.differentials": ("DDNTK", "empirical_ddntk", "empirical_dntk"),
    "networks.ensembles": ("Ensemble", "train_ensemble"),
    "networks.tangent_kernel": ("empirical_ntk", "empirical_ntk_by_group"),
    "networks.taylor": ("expand",),
    "networks.training": ("Training", "train"),
    "prediction.bayesian": ("BayesianInference", "evidence"),
    "prediction.curves": ("LossCurves", "loss_curves"),
    "prediction.distribution": ("TrainedDistribution",),
    "prediction.finite_width": ("DenseTensors",),
    "prediction.infinite_width": ("TrainingProblem",),
    "prediction.predict": ("predict",),
    "prediction.sampled_mean": ("SampledNeurons",),
    "saving": ("load",),
    "statistics.corrections": ("Corrections", "corrections"),
    "statistics.criticality": ("criticality", "susceptibilities"),
    "statistics.depth_growth": ("DepthGrowth", "depth_growth", "vertex_slope"),
    "statistics.kernels": ("Kernels", "kernels", "trajectory"),
    "statistics.phases": ("correlation_lengths", "fixed_point", "phase_diagram"),
    "tuning": ("Tuning", "tune"),
    "verification.result": ("Verification",),
    "verification.verify": ("verify",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """A public name or a module of the package, imported when first asked for."""
    if name in _HOME_OF:
        value = getattr(importlib.import_module(f"finitewidth.{_HOME_OF[name]}"), name)
    elif name == "estimators":
        value = importlib.import_module("finitewidth.prediction.estimators")
    elif name == "__version__":
        value = _version()
    else:
        value = _module("finitewidth", name)
    globals()[name] = value
    return value


def _module(package: str, name: str) -> ModuleType:
    """A module of a package; its own modules are found as attributes, too."""
    full_name = f"{package}.{name}"
    if name.startswith("_") or not importlib.util.find_spec(full_name):
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    module = importlib.import_module(full_name)
    if hasattr(module, "__path__"):
        vars(module).setdefault("__getattr__", functools.partial(_module, full_name))
    return module


def _version() -> str:
    metadata = importlib.import_module("importlib.metadata")
    try:
        return metadata.version("finitewidth")
    except metadata.PackageNotFoundError:
        return "unknown (not installed)"


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__", "estimators", "lab"})
