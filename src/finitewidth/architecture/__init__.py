"""The one description of a network that theory and real networks share: layers, and what they are made of."""

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Affine, Dense, Hyperparameter, Hyperparameters
from finitewidth.architecture.layer import Layer, Shape, Surroundings
from finitewidth.architecture.mlp import MLP, Params, check_mlp
from finitewidth.architecture.sequential import Repeat, Sequential

__all__ = [
    "MLP",
    "Activate",
    "Affine",
    "Dense",
    "Hyperparameter",
    "Hyperparameters",
    "Layer",
    "Params",
    "Repeat",
    "Sequential",
    "Shape",
    "Surroundings",
    "check_mlp",
]
