"""What a predicted law is the law of: enough to train the networks that it describes."""

import equinox as eqx
from jaxtyping import Array, Float

from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import SpectralAlgorithm
from finitewidth.prediction.methods import BayesianInference, Method


class Recipe(eqx.Module):
    """Network, data and training of a law.

    `random_start` says whether networks start as they are drawn rather than at a given function; `method` is
    how corrections are computed.
    """

    net: MLP
    x_train: Float[Array, "train d"]
    y_train: Float[Array, "train out"]
    x_test: Float[Array, "test d"]
    algorithm: SpectralAlgorithm | BayesianInference
    order: int = eqx.field(static=True)
    ridge: float = eqx.field(static=True, converter=float)
    random_start: bool = eqx.field(static=True)
    method: Method | None = None
