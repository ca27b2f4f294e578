"""Data sets as inputs and labels for training."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from finitewidth.tables.built_in_tables import BUILT_IN, built_in_table
from finitewidth.tables.table import is_number


class DataSet(NamedTuple):
    """Inputs and labels: numbers (points, out) for regression, classes (points,) otherwise."""

    name: str
    x: Float[np.ndarray, "points features"]
    y: Shaped[np.ndarray, "points ..."]

    @property
    def classes(self) -> int:
        """Number of classes, zero for regression."""
        return int(self.y.max()) + 1 if self.y.dtype.kind == "i" else 0


def built_in(name: str) -> DataSet:
    """One of scikit-learn's data sets, inputs of mean 0 and variance 1, regression labels likewise."""
    if name not in BUILT_IN:
        raise ValueError(f"unknown data set {name!r}. Built in: {', '.join(BUILT_IN)}.")
    table = built_in_table(name)
    target = table.columns["target"]
    x = _standardised(np.stack(list(table.without("target").columns.values()), axis=1))
    if is_number(target):
        return DataSet(name, x, _standardised(target[:, None]))
    return DataSet(name, x, np.unique(target.astype(str), return_inverse=True)[1].astype(np.int64))


def as_classes(data: DataSet) -> DataSet:
    """The same data with its labels, whole numbers from 0, as classes."""
    labels = data.y.reshape(-1)
    if len(labels) != len(data.x) or not (labels == np.round(labels)).all() or labels.min() < 0:
        raise ValueError(f"the labels of {data.name} are not classes 0, 1, 2, ...: use a loss for numbers.")
    return data._replace(y=labels.astype(np.int64))


def as_numbers(data: DataSet) -> DataSet:
    """The same data with classes as centred one-hot vectors, for losses that take numbers."""
    if not data.classes:
        return data
    one_hot = np.eye(data.classes)[data.y]
    return data._replace(y=one_hot - 1 / data.classes)


def _standardised(columns: Float[np.ndarray, "n d"]) -> Float[np.ndarray, "n d"]:
    spread = columns.std(axis=0)
    return (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
