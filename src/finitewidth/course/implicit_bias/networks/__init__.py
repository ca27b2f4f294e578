"""Networks trained towards a margin, diagonal networks, and interpolating fits."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.implicit_bias.networks.diagonal_networks import (
        DiagonalWeights,
        diagonal_descent,
        diagonal_flow,
    )
    from finitewidth.course.implicit_bias.networks.margin_training import (
        MarginTraining,
        separable_flow,
        train_to_margin,
    )

__all__, __getattr__ = exports(__name__, __file__)
