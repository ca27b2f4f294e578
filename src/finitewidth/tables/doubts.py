"""What in a table may not be what it seems: one sentence for each doubt, and nothing is changed."""

import math
from collections.abc import Iterable, Mapping

import numpy as np

from finitewidth.tables.table import Column, Table, as_words, gaps, is_number, is_words

# Numbers that stand for a missing value where they lie far away from all others.
_STAND_INS = {sign * number for number in (99, 999, 9999, 99999) for sign in (-1.0, 1.0)}
# One value that is so much further away than all others are apart hides them.
_HIDDEN = 1e9
_FEWEST_ROWS = 10
# Of so many columns without any meaning one would separate the classes by chance.
_UNLIKELY = 1e-6
# The share of the variance that a straight line may leave, as rounding to six digits does.
_ON_A_LINE = 1e-10
_MOST_SENTENCES = 3


def doubts(table: Table, target: str, classes: bool) -> list[str]:
    """Sentences about columns that may hold something else than they seem to."""
    inputs = {name: column for name, column in table.columns.items() if name != target}
    kinds = (
        (_stand_in(name, column) for name, column in table.columns.items()),
        (_hides_others(name, column) for name, column in inputs.items()),
        (_spellings(name, column) for name, column in table.columns.items()),
        _duplicates(inputs),
        _giving_away(inputs, table.columns[target], target, classes),
    )
    return [said for sentences in kinds for said in _first_few(filter(None, sentences))]


def _first_few(sentences: Iterable[str]) -> list[str]:
    found = list(sentences)
    more = len(found) - _MOST_SENTENCES
    return [*found[:_MOST_SENTENCES], *([f"the same holds for {more} more columns."] if more > 0 else [])]


def _stand_in(name: str, column: Column) -> str:
    """Whether one number far away from all others is one that people write for nothing."""
    if not is_number(column):
        return ""
    present = column[np.isfinite(column)]
    ends = {float(present.min()), float(present.max())} if len(present) else set()
    for value in ends & _STAND_INS:
        here = column == value
        others = present[present != value]
        if len(others) < _FEWEST_ROWS:
            continue
        low, high = float(others.min()), float(others.max())
        if max(low - value, value - high) > high - low:
            more = f" and {here.sum() - 1} more" if here.sum() > 1 else ""
            return (
                f"column {name!r} holds {value:g} in row {np.argmax(here) + 1}{more}, far from all others "
                f"({low:.4g} to {high:.4g}): if it stands for a missing value, empty the cell."
            )
    return ""


def _hides_others(name: str, column: Column) -> str:
    """Whether one number is so large that all others are the same beside it."""
    if not is_number(column):
        return ""
    present = column[~gaps(column)]
    if len(present) < _FEWEST_ROWS:
        return ""
    size = max(float(np.abs(present).max()), np.finfo(float).tiny)
    low, next_low, next_high, high = np.partition(present / size, (0, 1, -2, -1))[[0, 1, -2, -1]]
    if high - next_high > _HIDDEN * (next_high - low) > 0:
        row = int(np.nanargmax(column))
    elif next_low - low > _HIDDEN * (high - next_low) > 0:
        row = int(np.nanargmin(column))
    else:
        return ""
    return f"column {name!r} holds {column[row]:g} in row {row + 1}, beside which all others are equal."


def _spellings(name: str, column: Column) -> str:
    """Whether two words differ in case or spaces only."""
    if not is_words(column):
        return ""
    known: dict[str, str] = {}
    for word in dict.fromkeys(column.tolist()):
        plain = " ".join(str(word).split()).casefold()
        other = known.setdefault(plain, word)
        if other != word:
            return f"column {name!r} holds {word!r} beside {other!r}: they count as two words."
    return ""


def _duplicates(columns: Mapping[str, Column]) -> Iterable[str]:
    """Columns that are copies of others."""
    known: dict[tuple[str, bytes], str] = {}
    for name, column in columns.items():
        content = "\0".join(column.tolist()).encode() if is_words(column) else column.tobytes()
        first = known.setdefault((column.dtype.kind, content), name)
        if first != name and len(set(column.tolist())) > 1:
            yield f"column {name!r} is a copy of {first!r}: what it says counts twice."


def _giving_away(columns: Mapping[str, Column], target: Column, name: str, classes: bool) -> Iterable[str]:
    """Columns that tell the target without error, each alone."""
    labels = as_words(target).astype(str)
    if classes and _chance(labels) > _UNLIKELY:
        return
    for own, column in columns.items():
        known = ~gaps(column) & ~gaps(target)
        values, wanted = column[known], target[known]
        if len(wanted) < _FEWEST_ROWS:
            continue
        if is_words(values):
            words, index = np.unique(values.astype(str), return_inverse=True)
            told = len(words) <= len(values) / 4 and _is_function(index, labels[known])
        elif classes:
            told = _in_blocks(values, labels[known])
        else:
            told = is_number(values) and is_number(wanted) and _on_a_line(values, wanted)
        if told:
            yield f"column {own!r} alone tells {name!r} without error: is it known beforehand?"


def _chance(labels: np.ndarray) -> float:
    """Probability that a column without any meaning puts the classes into one interval each."""
    sizes = np.unique(labels, return_counts=True)[1]
    orders = math.lgamma(len(labels) + 1) - sum(math.lgamma(size + 1) for size in sizes)
    return math.exp(min(math.lgamma(len(sizes) + 1) - orders, 0.0))


def _is_function(index: np.ndarray, wanted: np.ndarray) -> bool:
    """Whether rows of one index have one value, and several indices several."""
    first = np.zeros(index.max() + 1, int)
    first[index[::-1]] = np.arange(len(index))[::-1]
    return bool((wanted == wanted[first[index]]).all()) and len(np.unique(wanted)) > 1


def _in_blocks(values: Column, labels: np.ndarray) -> bool:
    """Whether every class is one interval of the numbers."""
    order = np.argsort(values, kind="stable")
    values, labels = values[order], labels[order]
    changes = labels[1:] != labels[:-1]
    kinds = len(np.unique(labels))
    return bool(kinds > 1 and changes.sum() == kinds - 1 and (values[1:] != values[:-1])[changes].all())


def _on_a_line(values: Column, wanted: Column) -> bool:
    """Whether the numbers are the target in another unit."""
    a, b = (part / max(float(np.abs(part).max()), np.finfo(float).tiny) for part in (values, wanted))
    a, b = a - a.mean(), b - b.mean()
    left = (a @ a) * (b @ b) - (a @ b) ** 2
    return bool(a.any() and b.any() and left <= _ON_A_LINE * (a @ a) * (b @ b))
