"""Classifiers trained with weighted data points."""

from typing import TYPE_CHECKING

from finitewidth._base.lazy import exports

if TYPE_CHECKING:
    from finitewidth.course.importance_and_influence.networks.importance_weights import (
        WeightedTraining,
        logistic_flow,
        ridge_logistic,
        train_weighted,
    )

__all__, __getattr__ = exports(__name__, __file__)
