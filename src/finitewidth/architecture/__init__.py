"""The one description of a network that theory and real networks share: layers, and what they are made of."""

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.dense import Affine, Dense, Hyperparameter, Hyperparameters
from finitewidth.architecture.layer import Layer, Shape, Surroundings
from finitewidth.architecture.mlp import MLP, Params
from finitewidth.architecture.networks import activations, check_network, dense_stack
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
    "activations",
    "check_network",
    "dense_stack",
]
