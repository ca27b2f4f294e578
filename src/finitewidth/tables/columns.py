"""How one column enters a network: as a number, as indicators of its words, or not at all."""

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.tables.table import Column, Table, as_words, gaps, is_date, is_number, is_words

if TYPE_CHECKING:
    from sklearn.preprocessing import OneHotEncoder

_INDEX_NAMES = frozenset({"", "unnamed: 0", "__index_level_0__", "rownames", "row.names", "index", "row"})
_COUNTING_NAMES = frozenset({"id", "no", "nr", "obs", "case", "rownumber", "row_number", "x"})
_NAMELESS = frozenset({"", "unnamed: 0", "__index_level_0__"})


# What is left of a difference, relative to the numbers, when they are written with fifteen digits.
_ROUNDING = 1e-12
# Sums of squares of numbers in between neither vanish nor overflow.
SMALLEST, LARGEST = 1e-100, 1e100
# A word has an input of its own if it is in so many training rows and in this share of them.
_MOST_WORDS, _ROWS_OF_A_WORD, _SHARE_OF_A_WORD = 30, 3, 0.01
# With more different words than this share of the rows, the words are names and say nothing about new rows.
_NAMES_SHARE = 0.5
# Gaps in so many rows and in this share of them get an input that says where they are.
_ROWS_OF_GAPS, _SHARE_OF_GAPS = 3, 0.03


def index_column(table: Table) -> str | None:
    """The column that only numbers the rows, such as the index that data frames are saved with."""
    for place, (name, column) in enumerate(table.columns.items()):
        if not is_number(column) or table.rows < 2:
            continue
        plain = name.strip().lower()
        counts = column[0] in (0, 1) and np.array_equal(column, column[0] + np.arange(table.rows))
        numbers_rows = bool((column == np.round(column)).all()) and len(np.unique(column)) == table.rows
        if place == 0 and plain in _NAMELESS and numbers_rows:
            return name
        if counts and (plain in _INDEX_NAMES or (plain in _COUNTING_NAMES and place == 0)):
            return name
    return None


def index_sentence(index: str, table: str) -> str:
    """That a column is no input because it only numbers the rows."""
    which = f"column {index!r} of {table}" if index else f"the first column of {table}, which has no name,"
    return f"{which} only numbers the rows and was left out."


class LeftOut(NamedTuple):
    """A column that is no input; `done` says why."""

    column: str
    done: str
    constant: bool = False
    names: tuple[str, ...] = ()


class Numbers(NamedTuple):
    """A column of numbers, or of dates as days, in units of 2^power.

    Gaps are filled with the median and, where training has many, marked by a second input. The power is zero
    unless squares of the numbers would overflow or vanish.
    """

    column: str
    names: tuple[str, ...]
    done: str
    date: bool
    gaps: int
    median: str
    middle: float
    power: int = 0

    @property
    def size(self) -> str:
        """How large its numbers are, as a power of ten."""
        return f"1e{round(self.power * math.log10(2)):+d}"

    def raw(self, values: Column) -> Float[np.ndarray, "rows inputs"]:
        """Its inputs before scaling."""
        numbers = np.ldexp(_numbers(values), -self.power)
        missing = np.isnan(numbers)
        filled = np.where(missing, self.middle, numbers)
        return np.stack([filled, missing] if len(self.names) > 1 else [filled], axis=1)

    def units(self, raw: Float[np.ndarray, "rows inputs"]) -> Float[np.ndarray, " inputs"]:
        """Standard deviation of every input."""
        return raw.std(axis=0)

    def matched(self, values: Column, table: str) -> Column:
        """The column of another table, as the kind that training had."""
        if (is_date if self.date else is_number)(values):
            return values
        if gaps(values).all():
            return np.full(len(values), np.datetime64("NaT") if self.date else np.nan)
        row = int(np.argmin(gaps(values)))
        if is_words(values) and not self.date:
            numeric = np.array([_number(word) for word in values])
            bad = np.isnan(numeric) & ~gaps(values)
            if not bad.any():
                return numeric
            row = int(np.argmax(bad))
        kind = "dates" if self.date else "numbers"
        raise ValueError(
            f"column {self.column!r} of {table} holds {str(values[row])!r} in row {row + 1}; "
            f"in training it holds {kind}."
        )

    def about(self, values: Column, table: str) -> list[str]:
        """A sentence about gaps where training had none."""
        count = int(gaps(values).sum())
        if self.gaps or not count:
            return []
        return [
            f"{table} has {_counted_gaps(count)} in column {self.column!r}, where training had none; "
            f"filled with the median {self.median}."
        ]


class Words(NamedTuple):
    """A column of words: one indicator for every frequent word, or one input where there are two.

    The encoder knows all words of the training rows and counts the rare ones as one.
    """

    column: str
    names: tuple[str, ...]
    done: str
    encoder: "OneHotEncoder"

    def raw(self, values: Column) -> Float[np.ndarray, "rows inputs"]:
        """Its inputs before scaling."""
        # Of two words the second has the input: the first is its absence.
        return self.encoder.transform(as_words(values)[:, None])[:, -len(self.names) :]

    def units(self, raw: Float[np.ndarray, "rows inputs"]) -> Float[np.ndarray, " inputs"]:
        """All words together weigh as much as one number: k indicators of variance one would weigh as k."""
        return np.full(raw.shape[1], np.sqrt(raw.var(axis=0).sum()))

    def matched(self, values: Column, table: str) -> Column:
        """The column of another table, as words."""
        return as_words(values)

    def about(self, values: Column, table: str) -> list[str]:
        """A sentence about words that no training row holds."""
        seen = set(self.encoder.categories_[0])
        new = [word for word in dict.fromkeys(values.tolist()) if word not in seen]
        if not new:
            return []
        shown = repr(new[0]) if new[0] else "gaps"
        more = f" and {len(new) - 1} more words" if len(new) > 1 else ""
        rare = self.encoder.infrequent_categories_[0] is not None
        counts = "counts as a rare word" if rare else "counts as none of the known words"
        return [f"column {self.column!r} of {table} holds {shown}{more}, unknown to training; it {counts}."]


Part = LeftOut | Numbers | Words


def treatment(name: str, values: Column, keep_constant: bool = False) -> Part:
    """How a column enters, by its training rows."""
    missing = gaps(values)
    if missing.all():
        return LeftOut(name, "no value in any training row, left out")
    if is_words(values):
        return _word_part(name, as_words(values))
    date, count = is_date(values), int(missing.sum())
    says = count >= max(_ROWS_OF_GAPS, _SHARE_OF_GAPS * len(values))
    present = _numbers(values)[~missing]
    power = _power(present)
    present = np.ldexp(present, -power)
    middle = float(np.median(present))
    median = (
        str(np.datetime64("1970-01-01") + np.timedelta64(round(middle), "D"))
        if date
        else f"{math.ldexp(middle, power):.4g}"
    )
    if is_constant(present):
        if says:
            return _word_part(name, as_words(values))
        if not keep_constant:
            return LeftOut(name, f"constant, {median} in every training row, left out", constant=True)
    done = "date, as days" if date else "number"
    if count:
        done += f"; {_counted_gaps(count)} filled with the median {median}"
        done += ", and an input that says where" if says else ""
    names = (name, f"{name} missing") if says else (name,)
    return Numbers(name, names, done, date, count, median, middle, power)


def is_constant(numbers: Float[np.ndarray, " rows"]) -> bool:
    """Whether numbers differ by no more than their own rounding, whatever their unit."""
    return bool(np.ptp(numbers) <= _ROUNDING * np.abs(numbers).max())


def _power(numbers: Float[np.ndarray, " rows"]) -> int:
    """The power of two that brings the largest number to size 1 if it is extreme, zero otherwise."""
    size = float(np.abs(numbers).max())
    return 0 if size == 0 or SMALLEST <= size <= LARGEST else math.frexp(size)[1]


def _word_part(name: str, values: Column) -> Part:
    from sklearn.preprocessing import OneHotEncoder

    rows, distinct = len(values), len(set(values))
    enough = max(_ROWS_OF_A_WORD, math.ceil(_SHARE_OF_A_WORD * rows))
    encoder = OneHotEncoder(
        min_frequency=enough if distinct > 2 else None,
        max_categories=_MOST_WORDS + 1,
        handle_unknown="infrequent_if_exist",
        sparse_output=False,
    ).fit(values[:, None])
    found = encoder.infrequent_categories_[0]
    rare = [] if found is None else list(found)
    words = [word or "missing" for word in encoder.categories_[0] if word not in rare]
    if distinct == 1:
        return LeftOut(name, f"constant, {values[0]!r} in every training row, left out", constant=True)
    if distinct == 2:
        done = f"two words, one input: {words[1]} or {words[0]}"
        return Words(name, (f"{name}={words[1]}",), done, encoder)
    if not words or distinct > _NAMES_SHARE * rows:
        return LeftOut(name, f"{distinct} different words in {rows} rows, like names: left out")
    shown = ", ".join(words[:4]) + (" ..." if len(words) > 4 else "")
    rest = f"; {len(rare)} rare words count as one" if len(rare) > 1 else ""
    names = tuple(f"{name}={word}" for word in [*words, *(["other"] if rare else [])])
    return Words(name, names, f"{len(words)} words ({shown}){rest}", encoder)


def _numbers(values: Column) -> Float[np.ndarray, " rows"]:
    """A column of numbers or dates as floats, dates in days; NaN where a value is missing."""
    floats = values.astype("datetime64[us]").astype(np.int64) / 86_400e6 if is_date(values) else values
    return np.where(gaps(values), np.nan, floats.astype(float))


def _counted_gaps(count: int) -> str:
    return f"{count} gap{'s' if count > 1 else ''}"


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return np.nan
