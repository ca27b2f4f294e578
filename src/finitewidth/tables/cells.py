"""Cells of text as numbers, dates or words: the column as a whole decides."""

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from finitewidth.tables.table import Column, Odd

if TYPE_CHECKING:
    import polars as pl

_MISSING = ("", "na", "n/a", "#n/a", "<na>", "nan", "null", "nat", "?")
# These are words of their own unless everything else in the column is a number or a date.
_MISSING_AMONG_NUMBERS = ("none", "-", "--", ".", "missing", "unknown")

_COMMA_DECIMAL = r"^[+-]?(\d+|\d{1,3}(\.\d{3})+)?(,\d+)?([eE][+-]?\d+)?$"
_COMMA_THOUSANDS = r"^[+-]?\d{1,3}(,\d{3})+(\.\d*)?$|^[+-]?\d*\.?\d*$"
_DOT_THOUSANDS = r"^[+-]?\d{1,3}(\.\d{3})*$"

_TIMES = ("", " %H:%M", " %H:%M:%S%.f", "T%H:%M", "T%H:%M:%S%.f", "T%H:%M:%S%.fZ", "T%H:%M:%S%.f%:z")
# Where day and month cannot be told apart, the first format that fits every cell is taken.
_DAYS = (
    "%Y-%m-%d", "%Y/%m/%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%d.%m.%y", "%m/%d/%y", "%d/%m/%y",
    "%d-%b-%Y", "%d-%b-%y", "%d %b %Y", "%d %B %Y", "%b %d, %Y", "%B %d, %Y",
)  # fmt: skip
_FIRST_YEAR, _SAMPLED_DATES = 1000, 3
_NUMBER_WITH_UNIT = (
    r"^(?P<before>[$\u20ac\u00a3\u00a5\u20b9]|(?:USD|EUR|GBP|CHF|JPY)\s)?\s*"
    r"(?P<number>[+-]?(?:\d{1,3}(?:,\d{3})+(?:\.\d*)?|\d{1,3}(?:\.\d{3})+(?:,\d*)?|\d*[.,]?\d+|\d+[.,])"
    r"(?:[eE][+-]?\d+)?)\s*"
    r"(?P<after>[%\u2030$\u20ac\u00a3\u00a5\u20b9\u00b0]|\p{L}[\p{L}\d/^*.\u00b2\u00b3]{0,7}|\u00b0[CFK])?$"
)
# Beside these, the same number without a unit would be worth another.
_FACTORS = ("%", "\u2030")
# So many cells of a column, one at least, may be something else than the others, of which there are so many.
_ODD_SHARE, _LEAST_GOOD = 0.1, 4
_POWER_OF_TEN = r"^[+-]?\d+[eE][+-]?\d+$"
_WIDEST_RANGE = 1e100
_LOOKS_LIKE_A_DATE = re.compile(r"\d.*[-/.:T ].*\d")


def plain_numbers(texts: "Mapping[str, pl.Series]") -> dict[str, Column]:
    """The columns of text in which every cell is a number with a decimal point, or empty.

    All columns at once: one by one, tables of thousands of columns take seconds.
    """
    import polars as pl

    frame = pl.DataFrame(dict(texts))
    numbers = frame.select(pl.all().cast(pl.Float64, strict=False))
    found = {}
    for text, column in zip(frame.iter_columns(), numbers.iter_columns(), strict=True):
        if text.null_count() == column.null_count() < len(column):
            values = np.array(column.to_numpy())
            sizes = np.abs(values[np.isfinite(values) & (values != 0)])
            if not len(sizes) or float(sizes.max()) <= _WIDEST_RANGE * float(sizes.min()):
                found[text.name] = values
    return found


def uses_decimal_commas(column: "pl.Series", likely: bool) -> bool:
    """Whether every cell is a number with a decimal comma or none, and some have one.

    Where 1,234 could be either, it has a decimal comma if that is `likely`.
    """
    cells = _present(column, _MISSING + _MISSING_AMONG_NUMBERS)
    if not len(cells) or _numbers(cells) is not None or not cells.str.contains(",", literal=True).any():
        return False
    thousands = not likely and cells.str.contains(_COMMA_THOUSANDS).all()
    return bool(cells.str.contains(_COMMA_DECIMAL).all()) and not thousands


class Parsed(NamedTuple):
    """A column, the format of its dates, what to say about it, its odd cells, and the unit of its numbers."""

    column: Column
    form: str | None = None
    remarks: tuple[str, ...] = ()
    odd: Odd | None = None
    unit: str | None = None


def parse(column: "pl.Series", decimal_commas: bool, date_format: str | None) -> Parsed:
    """The cells of a column of text as numbers, dates or words.

    With `decimal_commas` other columns of the file write 1,5 for one and a half, so that 1.500 is fifteen
    hundred; `date_format` is tried before all others. A unit that all numbers have is taken off. A few cells
    that are no numbers, or no dates, where all others are count as missing.
    """

    text = column.str.strip_chars().str.replace("\u2212", "-", literal=True)
    among_numbers = _MISSING + _MISSING_AMONG_NUMBERS
    missing = text.is_null() | text.str.to_lowercase().is_in(among_numbers)
    cells = text.filter(~missing)
    values = _written_numbers(cells, decimal_commas)
    if values is not None and not _are_names(cells, values):
        return Parsed(_spread(values.to_numpy(), missing, np.nan))
    dates, form = _dates(cells, date_format)
    if dates is not None and form is not None:
        return Parsed(_days(dates, missing), form, _ambiguous(cells, form, date_format))
    words = _words(text)
    if values is None and len(cells):
        found = _numbers_with_odd_cells(cells, missing, decimal_commas, words)
        if found is None:
            found = _dates_with_odd_cells(cells, missing, date_format, words)
        if found is not None:
            return found
    return Parsed(words)


def _words(text: "pl.Series") -> Column:
    import polars as pl

    missing = text.is_null() | text.str.to_lowercase().is_in(_MISSING)
    kept = text.filter(~missing)
    lower = kept.str.to_lowercase()
    words = lower if lower.is_in(["true", "false"]).all() else kept
    return _spread(words.cast(pl.String).to_numpy().astype(object), missing, "")


def _are_names(cells: "pl.Series", values: "pl.Series") -> bool:
    """Whether these numbers are names such as 3e300, since no quantity covers so many orders of magnitude."""
    if not cells.str.contains(_POWER_OF_TEN).any():
        return False
    sizes = values.abs().filter(values.is_finite() & (values != 0)).to_numpy()
    return len(sizes) > 0 and float(sizes.max()) > _WIDEST_RANGE * float(sizes.min())


def _few(count: int, total: int) -> bool:
    """Whether so many odd cells leave no doubt about what the others are."""
    return 0 < count <= max(1, _ODD_SHARE * total) and total - count >= _LEAST_GOOD


def _numbers_with_odd_cells(
    cells: "pl.Series", missing: "pl.Series", decimal_commas: bool, words: Column
) -> Parsed | None:
    """Numbers of which all, or some, have one unit, and a few cells that are no numbers."""
    import polars as pl

    parts = cells.str.extract_groups(_NUMBER_WITH_UNIT).struct.unnest()
    number, unit = parts["number"], parts["before"].fill_null("") + parts["after"].fill_null("")
    unit = unit.str.strip_chars()
    units = unit.filter(number.is_not_null() & (unit != ""))
    common = None if units.is_empty() else str(units.value_counts(sort=True)[units.name][0])
    bare = number.is_not_null() & (unit == "")
    with_unit = number.is_not_null() & (unit == common) if common is not None else bare & False
    # A hundredth beside whole numbers changes what the cell is worth, another unit need not.
    both = with_unit.any() and bare.any() and common in _FACTORS
    good = (with_unit if with_unit.sum() > bare.sum() else bare) if both else bare | with_unit
    odd = ~good
    if odd.any() and not _few(int(odd.sum()), len(cells)):
        return None
    values = _written_numbers(number.filter(good), decimal_commas)
    if values is None:
        return None
    remarks = []
    if common is not None and (good & with_unit).any():
        bearers = good & with_unit
        count = int(bearers.sum())
        many = "its numbers" if count == good.sum() else f"{count} of its numbers, first in row {{row}}"
        at = _row(missing, bearers)
        remarks.append(f"the unit {common!r} was taken off {many.format(row=at)}.")
    all_values = pl.Series(np.full(len(cells), np.nan)).scatter(good.arg_true(), values)
    return Parsed(
        _spread(all_values.to_numpy(), missing, np.nan),
        None,
        tuple(remarks),
        _odd(cells, missing, odd, "numbers", words),
        common if remarks else None,
    )


def _dates_with_odd_cells(
    cells: "pl.Series", missing: "pl.Series", known: str | None, words: Column
) -> Parsed | None:
    """Dates and a few cells that are none, such as the thirtieth of February."""
    if not cells.str.contains(_LOOKS_LIKE_A_DATE.pattern).mean() > 1 - 2 * _ODD_SHARE:  # type: ignore[operator]
        return None
    best = None
    for sample in cells[:_SAMPLED_DATES].unique(maintain_order=True):
        first = cells.filter(cells == sample)[:1]
        for form in _date_formats(known):
            if first.str.to_datetime(form, strict=False).null_count():
                continue
            dates = cells.str.to_datetime(form, strict=False)
            early = dates.dt.year() < _FIRST_YEAR
            bad = dates.is_null() | early.fill_null(True)
            if _few(int(bad.sum()), len(cells)) and (best is None or bad.sum() < best[2].sum()):
                best = dates, form, bad
    if best is None:
        return None
    dates, form, bad = best
    kept = dates.dt.replace_time_zone(None).set(bad, None)
    odd = _odd(cells, missing, bad, "dates", words)
    return Parsed(_days(kept, missing), form, (), odd)


def _odd(cells: "pl.Series", missing: "pl.Series", odd: "pl.Series", kind: str, words: Column) -> Odd | None:
    count = int(odd.sum())
    if not count:
        return None
    return Odd(str(cells.filter(odd)[0]), _row(missing, odd), count, kind, words)


def _row(missing: "pl.Series", chosen: "pl.Series") -> int:
    """The number of the row, from 1, of the first chosen cell among those that are not missing."""
    return int(np.flatnonzero(~missing.to_numpy())[int(chosen.arg_true()[0])]) + 1


def _days(dates: "pl.Series", missing: "pl.Series") -> Column:
    return _spread(dates.to_numpy().astype("datetime64[us]"), missing, np.datetime64("NaT"))


def _ambiguous(cells: "pl.Series", form: str, known: str | None) -> tuple[str, ...]:
    """What to say about dates whose day and month could also be the other way round."""
    swapped = form.replace("%m/%d/", "%d/%m/") if form.startswith("%m/%d/") else ""
    if not swapped or form == known or cells.str.to_datetime(swapped, strict=False).null_count():
        return ()
    if (cells.str.to_datetime(swapped, strict=False) == cells.str.to_datetime(form, strict=False)).all():
        return ()
    return (
        f"its dates, such as {str(cells[0])!r}, fit month/day/year and day/month/year: they were read as "
        "month/day/year.",
    )


def _present(text: "pl.Series", missing: tuple[str, ...]) -> "pl.Series":
    stripped = text.str.strip_chars().drop_nulls()
    return stripped.filter(~stripped.str.to_lowercase().is_in(missing))


def _spread(values: np.ndarray, missing: "pl.Series", gap) -> Column:
    """All rows of a column, from the values of the rows that have one."""
    column = np.full(len(missing), gap, values.dtype)
    column[~missing.to_numpy()] = values
    return column


def _numbers(cells: "pl.Series") -> "pl.Series | None":
    import polars as pl

    numbers = cells.cast(pl.Float64, strict=False)
    return None if numbers.null_count() else numbers


def _written_numbers(cells: "pl.Series", decimal_commas: bool) -> "pl.Series | None":
    """Numbers with a decimal point or comma, thousands grouped or not; None if some cell is none."""
    if not len(cells):
        return _numbers(cells)
    if decimal_commas and cells.str.contains(_COMMA_DECIMAL).all():
        grouped = cells.str.contains(",", literal=True).any() or cells.str.contains(_DOT_THOUSANDS).all()
        if grouped:
            plain = cells.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True)
            return _numbers(plain)
    numbers = _numbers(cells)
    if numbers is None and cells.str.contains(_COMMA_THOUSANDS).all():
        return _numbers(cells.str.replace_all(",", "", literal=True))
    if numbers is None and cells.str.contains(_COMMA_DECIMAL).all():
        return _numbers(cells.str.replace_all(".", "", literal=True).str.replace(",", ".", literal=True))
    return numbers


def _date_formats(known: str | None) -> list[str]:
    return ([known] if known else []) + [day + time for day in _DAYS for time in _TIMES]


def _dates(cells: "pl.Series", known: str | None) -> "tuple[pl.Series | None, str | None]":
    if not len(cells) or not _LOOKS_LIKE_A_DATE.search(str(cells[0])):
        return None, None
    for form in _date_formats(known):
        # One cell is cheap, and rules out nearly every format.
        if cells[:1].str.to_datetime(form, strict=False).null_count():
            continue
        dates = cells.str.to_datetime(form, strict=False)
        if not dates.null_count() and (dates.dt.year() >= _FIRST_YEAR).all():
            return dates.dt.replace_time_zone(None), form
    return None, None
