"""The one description of a network that theory and real networks share: layers, and what they are made of."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.architecture.activate import Activate
    from finitewidth.architecture.activations import (
        ACTIVATION_NAMES,
        BUILT_IN,
        Activation,
        BuiltIn,
        as_activation,
        leaky_relu,
        monomial,
    )
    from finitewidth.architecture.attention import AttentionParams, SelfAttention
    from finitewidth.architecture.concat import Concat
    from finitewidth.architecture.convolution import Conv
    from finitewidth.architecture.dense import (
        AFFINE,
        Affine,
        AffineLayer,
        Dense,
        Hyperparameter,
        Hyperparameters,
    )
    from finitewidth.architecture.dropout import Dropout
    from finitewidth.architecture.image_networks import ConvNet, ResNet
    from finitewidth.architecture.layer import Layer, Shape, Spec, Surroundings
    from finitewidth.architecture.mlp import MLP, Params
    from finitewidth.architecture.networks import activations_of, check_network, dense_stack
    from finitewidth.architecture.normalisation import LayerNorm, Normalisation, RMSNorm
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
    from finitewidth.architecture.vocabulary import Entry, word

__all__, __getattr__ = exports(__name__, __file__)
