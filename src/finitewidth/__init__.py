"""The distribution of trained networks, at infinite width and to first order in 1/width.

Importing the package switches JAX to 64-bit floating point; arrays passed in as float32 stay so.
"""

import importlib

import jax

jax.config.update("jax_enable_x64", True)

from finitewidth.activations import ACTIVATION_NAMES, Activation
from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import DirectOptimization, GradientDescent, GradientFlow
from finitewidth.prediction.bayesian import BayesianInference, evidence
from finitewidth.prediction.curves import LossCurves, loss_curves
from finitewidth.prediction.distribution import TrainedDistribution
from finitewidth.prediction.infinite_width import TrainingProblem
from finitewidth.prediction.predict import predict
from finitewidth.statistics.criticality import criticality, susceptibilities
from finitewidth.statistics.kernels import Kernels, kernels, trajectory
from finitewidth.statistics.phases import correlation_lengths, fixed_point, phase_diagram
from finitewidth.tuning import Tuning, tune

__all__ = [
    "ACTIVATION_NAMES",
    "MLP",
    "Activation",
    "BayesianInference",
    "DirectOptimization",
    "GradientDescent",
    "GradientFlow",
    "Kernels",
    "LossCurves",
    "TrainedDistribution",
    "TrainingProblem",
    "Tuning",
    "correlation_lengths",
    "criticality",
    "estimators",
    "evidence",
    "fixed_point",
    "kernels",
    "loss_curves",
    "phase_diagram",
    "predict",
    "susceptibilities",
    "trajectory",
    "tune",
]


def __getattr__(name: str):
    # scikit-learn takes a second to import; only those who use the estimators wait for it.
    if name == "estimators":
        return importlib.import_module("finitewidth.prediction.estimators")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
