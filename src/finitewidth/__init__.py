"""The distribution of trained networks, at infinite width and to first order in 1/width.

Importing the package switches JAX to 64-bit floating point; arrays passed in as float32 stay so.
"""

import importlib

import jax

jax.config.update("jax_enable_x64", True)

from finitewidth.activations import ACTIVATION_NAMES, Activation
from finitewidth.architecture import MLP
from finitewidth.statistics.criticality import criticality, susceptibilities
from finitewidth.statistics.kernels import Kernels, kernels, trajectory
from finitewidth.statistics.phases import correlation_lengths, fixed_point, phase_diagram
from finitewidth.tuning import Tuning, tune

__all__ = [
    "ACTIVATION_NAMES",
    "MLP",
    "Activation",
    "Kernels",
    "Tuning",
    "correlation_lengths",
    "criticality",
    "fixed_point",
    "kernels",
    "phase_diagram",
    "susceptibilities",
    "trajectory",
    "tune",
]


def __getattr__(name: str):
    """The laboratory is imported when it is first asked for: it brings matplotlib with it."""
    if name == "lab":
        return importlib.import_module("finitewidth.lab")
    raise AttributeError(f"module 'finitewidth' has no attribute {name!r}")
