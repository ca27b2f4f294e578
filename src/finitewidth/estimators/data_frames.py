"""Data frames as inputs of the estimators."""

import warnings
from typing import Any

from finitewidth.tables.frames import is_frame
from finitewidth.tables.inputs import is_plain
from finitewidth.tables.preparation import Preparation
from finitewidth.tables.reading import read_table


def fit_frame(X: Any) -> tuple[Any, Preparation | None]:
    """Training inputs from a data frame with words, dates or gaps, and how its columns were prepared.

    Everything else, data frames of numbers among it, comes back as it is, with no preparation.
    """
    if not is_frame(X):
        return X, None
    table = read_table(X)
    if is_plain(table):
        return X, None
    for note in table.odd_notes():
        warnings.warn(note, stacklevel=4)
    preparation = Preparation.fit(table)
    return preparation.apply(table), preparation


def apply_frame(X: Any, preparation: Preparation | None) -> Any:
    """Inputs of further rows, prepared like the training rows."""
    if preparation is None:
        return X
    if not is_frame(X):
        columns = ", ".join(part.column for part in preparation.parts[:5])
        raise ValueError(f"X must be a data frame with the columns of the training data, {columns} ...")
    return preparation.apply(read_table(X))
