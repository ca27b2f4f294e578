"""Tables of data: named columns of numbers, words or dates."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Shaped

Column = Shaped[np.ndarray, " rows"]

_NO_FORMATS: Mapping[str, str] = MappingProxyType({})


class Odd(NamedTuple):
    """A few cells of a column that are not what all others are, and count as missing.

    Attributes
    ----------
    cell, row
        The first of them, and its row, from 1.
    count
        How many there are.
    kind
        What the others are: numbers or dates.
    words
        The whole column as words.
    """

    cell: str
    row: int
    count: int
    kind: str
    words: Column

    @property
    def sentence(self) -> str:
        """Which cells they are; to be continued."""
        more = f" and {self.count - 1} more such cells" if self.count > 1 else ""
        return f"{self.cell!r} in row {self.row}{more} among {self.kind}"


_NO_ODD: Mapping[str, Odd] = MappingProxyType({})
_NO_UNITS: Mapping[str, str] = MappingProxyType({})


class Table(NamedTuple):
    """Columns of equal length, each an array of one kind.

    Numbers are floats, NaN where a value is missing; words are text, "" where it is missing; dates are
    datetime64, NaT where it is missing.

    Attributes
    ----------
    target
        The column that the source itself marks as the one to predict, if it does.
    notes
        What the reader of the table should know about how it was read.
    formats
        How the dates of a column were written, such as %d.%m.%Y.
    nameless
        Whether the file had no header, so that columns are called by their numbers.
    odd
        Columns with a few cells of another kind.
    units
        Units that were taken off the numbers of a column.
    shape
        Axes of one image, such as (height, width, channels): all columns but the target are its entries, in
        their order in memory. Empty where the columns are no images.
    """

    name: str
    columns: dict[str, Column]
    target: str | None = None
    notes: tuple[str, ...] = ()
    formats: Mapping[str, str] = _NO_FORMATS
    nameless: bool = False
    odd: Mapping[str, Odd] = _NO_ODD
    units: Mapping[str, str] = _NO_UNITS
    shape: tuple[int, ...] = ()

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def odd_notes(self, but: str | None = None) -> list[str]:
        """Sentences about odd cells, the column `but` apart."""
        return [
            f"column {name!r} of {self.name} holds {odd.sentence}: "
            f"{'it counts' if odd.count == 1 else 'they count'} as missing."
            for name, odd in self.odd.items()
            if name != but and name in self.columns
        ]

    def take(self, rows: np.ndarray) -> "Table":
        """The same columns with some of the rows."""
        return self._replace(columns={name: column[rows] for name, column in self.columns.items()})

    def without(self, *names: str | None) -> "Table":
        """The same rows without some of the columns."""
        return self._replace(columns={name: c for name, c in self.columns.items() if name not in names})


def is_number(column: Column) -> bool:
    """Whether a column holds numbers."""
    return column.dtype.kind == "f"


def is_date(column: Column) -> bool:
    """Whether a column holds dates."""
    return column.dtype.kind == "M"


def is_words(column: Column) -> bool:
    """Whether a column holds words."""
    return not is_number(column) and not is_date(column)


def gaps(column: Column) -> Bool[np.ndarray, " rows"]:
    """Where a value is missing."""
    if is_number(column):
        return np.isnan(column)
    return np.isnat(column) if is_date(column) else np.asarray(column == "", bool)


def refuse_infinite(table: Table, but: str | None = None) -> None:
    """Refuse a table with an infinite number outside the column `but`: it is neither a value nor a gap."""
    for name, column in table.columns.items():
        infinite = np.isinf(column) if is_number(column) and name != but else np.zeros(0, bool)
        if infinite.any():
            row = int(np.argmax(infinite))
            raise ValueError(
                f"column {name!r} of {table.name} holds {column[row]} in row {row + 1}: correct the cell, or "
                "empty it to have it treated as missing."
            )


def as_words(column: Column) -> Column:
    """Any column as words; whole numbers without their decimal point, nothing where a value is missing."""
    if is_words(column):
        return column.astype(object)
    missing = gaps(column)
    text = [f"{value:.15g}" if is_number(column) else str(value) for value in column]
    return np.array(["" if gap else word for word, gap in zip(text, missing, strict=True)], object)
