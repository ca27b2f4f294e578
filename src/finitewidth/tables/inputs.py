"""Inputs of a network from a table without a target: numbers as they are, everything else prepared."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.tables.columns import index_column, index_sentence
from finitewidth.tables.preparation import Preparation
from finitewidth.tables.table import Table, is_number


class Inputs(NamedTuple):
    """Inputs from a table, and the way to the inputs of further rows.

    Attributes
    ----------
    x
        (rows, inputs).
    columns
        The columns that were used.
    preparation
        How they were prepared; None for numbers that entered as they are.
    notes
        What the user should know.
    nameless
        Whether the columns are called by their place.
    """

    x: Float[np.ndarray, "rows d"]
    columns: tuple[str, ...]
    preparation: Preparation | None
    notes: tuple[str, ...]
    nameless: bool = False

    def further(self, table: Table) -> Float[np.ndarray, "rows d"]:
        """Inputs of the rows of another table with the same columns."""
        if table.nameless and len(table.columns) != len(self.columns):
            raise ValueError(
                f"{table.name} has {len(table.columns)} columns; the first table has {len(self.columns)} "
                "inputs."
            )
        if self.preparation is not None:
            return self.preparation.apply(table)
        if (self.nameless or table.nameless) and len(table.columns) == len(self.columns):
            # Columns that are called by their place are found by it.
            return _plain(table)
        absent = [name for name in self.columns if name not in table.columns]
        if absent:
            raise ValueError(f"{table.name} has no column {absent[0]!r}, which the first table has.")
        return _plain(table._replace(columns={name: table.columns[name] for name in self.columns}))


def inputs_of(table: Table, target: str | None = None) -> Inputs:
    """Inputs from all columns of a table but its index and the target, if there is one.

    Numbers without gaps enter as they are. A table with words, dates or gaps is prepared as a whole: every
    column then has mean zero and total variance one.
    """
    notes = [*table.notes]
    dropped = table.target if target is None else target
    if dropped is not None and dropped not in table.columns:
        raise ValueError(f"{table.name} has no column {dropped!r}; it has {', '.join(table.columns)}.")
    if target is None and dropped is not None:
        notes.append(f"column {dropped!r} of {table.name} is its target and no input.")
    index = index_column(table.without(dropped))
    if index is not None:
        notes.append(index_sentence(index, table.name))
    rest = table.without(index, dropped)
    notes += rest.odd_notes()
    if not rest.columns:
        raise ValueError(f"{table.name} has no column left to be an input.")
    if is_plain(rest):
        return Inputs(_plain(rest), tuple(rest.columns), None, tuple(notes), table.nameless)
    preparation = Preparation.fit(rest)
    notes += [f"column {note.column!r}: {note.done}." for note in preparation.notes if note.done != "number"]
    notes.append(f"every column of {table.name} was given mean zero and total variance one.")
    return Inputs(preparation.apply(rest), tuple(rest.columns), preparation, tuple(notes), table.nameless)


def is_plain(table: Table) -> bool:
    """Whether every column holds numbers and nothing is missing or infinite."""
    return all(is_number(column) and np.isfinite(column).all() for column in table.columns.values())


def _plain(table: Table) -> Float[np.ndarray, "rows d"]:
    for name, column in table.columns.items():
        if not is_number(column) or not np.isfinite(column).all():
            row = int(np.argmin(np.isfinite(column))) if is_number(column) else 0
            what = "no finite number" if is_number(column) else f"{str(column[0])!r}"
            raise ValueError(
                f"column {name!r} of {table.name} holds {what} in row {row + 1}; "
                "in the first table it holds numbers without gaps."
            )
    return np.stack(list(table.columns.values()), axis=1)
