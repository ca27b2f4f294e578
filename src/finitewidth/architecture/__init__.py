"""The one description of a network that theory and real networks share: layers, and what they are made of."""

from finitewidth.architecture.activate import Activate
from finitewidth.architecture.attention import AttentionParams, SelfAttention
from finitewidth.architecture.convolution import Conv
from finitewidth.architecture.dense import Affine, AffineLayer, Dense, Hyperparameter, Hyperparameters
from finitewidth.architecture.layer import Layer, Shape, Surroundings
from finitewidth.architecture.mlp import MLP, Params
from finitewidth.architecture.networks import activations, check_network, dense_stack
from finitewidth.architecture.pooling import AveragePool, Flatten, GlobalAveragePool
from finitewidth.architecture.sequential import Repeat, Sequential

__all__ = [
    "MLP",
    "Activate",
    "Affine",
    "AffineLayer",
    "AttentionParams",
    "AveragePool",
    "Conv",
    "Dense",
    "Flatten",
    "GlobalAveragePool",
    "Hyperparameter",
    "Hyperparameters",
    "Layer",
    "Params",
    "Repeat",
    "SelfAttention",
    "Sequential",
    "Shape",
    "Surroundings",
    "activations",
    "check_network",
    "dense_stack",
]
