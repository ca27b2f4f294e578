"""The networks of most claims: hidden layers of one width and one activation."""

from collections.abc import Callable
from typing import Any

from finitewidth.architecture.activations import Activation
from finitewidth.architecture.dense import Hyperparameter
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP


def equal_layers(
    width: int,
    layers: int,
    activation: str | Activation | Callable,
    C_b: Hyperparameter | None = None,
    C_W: Hyperparameter | None = None,
    **more: Any,
) -> Layer:
    """`layers` hidden layers of one width, critical without variances; `more` as for `fw.MLP`."""
    return MLP((width,) * layers, activation, C_b, C_W, **more)
