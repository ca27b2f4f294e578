"""What a predicted law is the law of: enough to train the networks that it describes."""

from typing import TYPE_CHECKING, NamedTuple

from jaxtyping import Array, Float

from finitewidth.architecture import MLP
from finitewidth.dynamics.algorithms import SpectralAlgorithm

if TYPE_CHECKING:
    from finitewidth.prediction.finite_width import Method


class Recipe(NamedTuple):
    """Network, data and training of a law.

    `algorithm` is None for a posterior, which no training reaches. `random_start` says whether networks
    start as they are drawn rather than at a given function; `method` is how corrections are computed.
    """

    net: MLP
    x_train: Float[Array, "train d"]
    y_train: Float[Array, "train out"]
    x_test: Float[Array, "test d"]
    algorithm: SpectralAlgorithm | None
    order: int
    ridge: float | int
    random_start: bool
    method: "Method | None" = None
