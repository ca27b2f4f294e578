"""How one column enters a network: as a number, as indicators of its words, or not at all."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import numpy as np
from jaxtyping import Float

from finitewidth.data.table import Column, Table, as_words, gaps, is_date, is_number, is_words

_INDEX_NAMES = frozenset({"", "unnamed: 0", "__index_level_0__", "rownames", "row.names", "index", "row"})
_COUNTING_NAMES = frozenset({"id", "no", "nr", "obs", "case", "rownumber", "row_number", "x"})
_NAMELESS = frozenset({"", "unnamed: 0", "__index_level_0__"})


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
        steps = np.diff(column.astype(float))
        counts = column[0] in (0, 1) and bool((steps == 1).all())
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


class Part(ABC):
    """One column of the training table and what became of it."""

    column: str

    @property
    @abstractmethod
    def names(self) -> tuple[str, ...]:
        """Names of its inputs."""

    @property
    @abstractmethod
    def done(self) -> str:
        """What was done to it, in words."""

    @abstractmethod
    def raw(self, values: Column) -> Float[np.ndarray, "rows inputs"]:
        """Its inputs before scaling."""

    @abstractmethod
    def units(self, raw: Float[np.ndarray, "rows inputs"]) -> Float[np.ndarray, " inputs"]:
        """What to divide its inputs by, so that no column outweighs another."""

    @abstractmethod
    def matched(self, values: Column, table: str) -> Column:
        """The column of another table, as the kind that training had."""


@dataclass(frozen=True)
class LeftOut(Part):
    """A column that is no input."""

    column: str
    done: str = ""

    @property
    def names(self):
        return ()

    def raw(self, values):
        return np.empty((len(values), 0))

    def units(self, raw):
        return np.empty(0)

    def matched(self, values, table):
        return values


class Constant(LeftOut):
    """A column without variation."""


@dataclass(frozen=True)
class Numbers(Part):
    """A column of numbers, or of dates as days; gaps are filled with the median."""

    column: str
    median: float
    gaps: int
    says_gaps: bool
    date: bool = False

    @property
    def names(self):
        return (self.column, f"{self.column} missing") if self.says_gaps else (self.column,)

    @property
    def done(self):
        kind = "date, as days" if self.date else "number"
        if not self.gaps:
            return kind
        count = f"{self.gaps} gap{'s' if self.gaps > 1 else ''}"
        filled = f"{count} filled with the median {self.words_of(self.median)}"
        return f"{kind}; {filled}" + (", and an input that says where" if self.says_gaps else "")

    def words_of(self, value: float) -> str:
        """A value of the column, as one writes it."""
        if self.date:
            return str(np.datetime64("1970-01-01") + np.timedelta64(round(value), "D"))
        return f"{value:.4g}"

    def raw(self, values):
        missing = gaps(values)
        numbers = np.where(missing, self.median, _days(values) if self.date else values.astype(float))
        return np.stack([numbers, missing.astype(float)], axis=1) if self.says_gaps else numbers[:, None]

    def units(self, raw):
        return raw.std(axis=0)

    def matched(self, values, table):
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


@dataclass(frozen=True)
class Words(Part):
    """A column of words: one indicator for every frequent word, or one input where there are two."""

    column: str
    words: tuple[str, ...]
    others: bool
    seen: frozenset[str] = field(repr=False)
    rare: int = 0

    @property
    def names(self):
        words = self.words[1:] if self.one_input else self.words
        named = tuple(f"{self.column}={word or 'missing'}" for word in words)
        return (*named, f"{self.column}=other") if self.others else named

    @property
    def one_input(self) -> bool:
        """Whether two words cover every row, so that one indicator says it all."""
        return len(self.words) == 2 and not self.others

    @property
    def done(self):
        if self.one_input:
            return f"two words, one input: {self.words[1] or 'missing'} or {self.words[0] or 'missing'}"
        shown = ", ".join(word or "missing" for word in self.words[:4]) + (
            " ..." if len(self.words) > 4 else ""
        )
        rest = f"; {self.rare} rare words count as one" if self.rare > 1 and self.others else ""
        return f"{len(self.words)} words ({shown}){rest}"

    def raw(self, values):
        words = as_words(values)
        shown = self.words[1:] if self.one_input else self.words
        indicators = [words == word for word in shown]
        if self.others:
            # A word that training does not know is as rare as a word can be.
            indicators.append(~np.isin(words.astype(str), np.array(self.words, str)))
        return np.stack(indicators, axis=1).astype(float)

    def units(self, raw):
        # All words together weigh as much as one number: k indicators of variance one would weigh as k.
        return np.full(raw.shape[1], np.sqrt(raw.var(axis=0).sum()))

    def matched(self, values, table):
        return as_words(values)

    def unknown(self, values: Column, table: str) -> list[str]:
        """A sentence about words that no training row holds."""
        new = [word for word in dict.fromkeys(values.tolist()) if word not in self.seen]
        if not new:
            return []
        shown = repr(new[0]) if new[0] else "gaps"
        more = f" and {len(new) - 1} more words" if len(new) > 1 else ""
        counts = "counts as a rare word" if self.others else "counts as none of the known words"
        return [f"column {self.column!r} of {table} holds {shown}{more}, unknown to training; it {counts}."]


def treatment(name: str, values: Column, keep_constant: bool = False) -> Part:
    """How a column enters, by its training rows."""
    missing = gaps(values)
    present = values[~missing]
    if not len(present):
        return LeftOut(name, "no value in any training row, left out")
    if is_words(values):
        return _word_part(name, as_words(values))
    numbers = _days(present) if is_date(values) else present.astype(float)
    says = missing.sum() >= max(_ROWS_OF_GAPS, _SHARE_OF_GAPS * len(values))
    median = float(np.median(numbers))
    part = Numbers(name, median, int(missing.sum()), bool(says), is_date(values))
    constant = np.ptp(numbers) <= 1e-12 * max(1.0, float(np.abs(numbers).max()))
    if constant and not says and not keep_constant:
        return Constant(name, f"constant, {part.words_of(median)} in every training row, left out")
    if constant and says:
        return _word_part(name, as_words(values))
    return part


def _word_part(name: str, values: Column) -> Part:
    words, counts = np.unique(values.astype(str), return_counts=True)
    if len(words) == 1:
        return Constant(name, f"constant, {str(words[0])!r} in every training row, left out")
    rows = len(values)
    order = np.argsort(-counts, kind="stable")
    enough = max(_ROWS_OF_A_WORD, _SHARE_OF_A_WORD * rows)
    frequent = [i for i in order[:_MOST_WORDS] if counts[i] >= enough]
    if len(words) <= 2:
        frequent = list(order)
    if not frequent or (len(words) > _NAMES_SHARE * rows and len(words) > 2):
        return LeftOut(name, f"{len(words)} different words in {rows} rows, like names: left out")
    kept = tuple(sorted(str(words[i]) for i in frequent))
    rare = len(words) - len(kept)
    return Words(name, kept, rare > 0, frozenset(str(word) for word in words), rare)


def _days(dates: Column) -> Float[np.ndarray, " rows"]:
    return dates.astype("datetime64[us]").astype(np.int64) / 86_400e6


def _number(word: str) -> float:
    try:
        return float(word)
    except ValueError:
        return np.nan
