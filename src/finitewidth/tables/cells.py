"""Cells of text as numbers, dates or words: the column as a whole decides."""

import re
from typing import TYPE_CHECKING

import numpy as np

from finitewidth.tables.table import Column

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
_LOOKS_LIKE_A_DATE = re.compile(r"\d.*[-/.:T ].*\d")


def uses_decimal_commas(column: "pl.Series", likely: bool) -> bool:
    """Whether every cell is a number with a decimal comma or none, and some have one.

    Where 1,234 could be either, it has a decimal comma if that is `likely`.
    """
    cells = _present(column, _MISSING + _MISSING_AMONG_NUMBERS)
    if not len(cells) or _numbers(cells) is not None or not cells.str.contains(",", literal=True).any():
        return False
    thousands = not likely and cells.str.contains(_COMMA_THOUSANDS).all()
    return bool(cells.str.contains(_COMMA_DECIMAL).all()) and not thousands


def parse(column: "pl.Series", decimal_commas: bool, date_format: str | None) -> tuple[Column, str | None]:
    """The cells of a column of text, and the format of its dates if it holds dates.

    With `decimal_commas` other columns of the file write 1,5 for one and a half, so that 1.500 is fifteen
    hundred; `date_format` is tried before all others.
    """
    import polars as pl

    text = column.str.strip_chars().str.replace("\u2212", "-", literal=True)
    among_numbers = _MISSING + _MISSING_AMONG_NUMBERS
    cells = _present(text, among_numbers)
    missing = text.is_null() | text.str.to_lowercase().is_in(among_numbers)
    values = _written_numbers(cells, decimal_commas)
    if values is not None:
        return _spread(values.to_numpy(), missing, np.nan), None
    dates, found = _dates(cells, date_format)
    if dates is not None:
        return _spread(dates.to_numpy().astype("datetime64[us]"), missing, np.datetime64("NaT")), found
    missing = text.is_null() | text.str.to_lowercase().is_in(_MISSING)
    kept = text.filter(~missing)
    lower = kept.str.to_lowercase()
    words = lower if lower.is_in(["true", "false"]).all() else kept
    return _spread(words.cast(pl.String).to_numpy().astype(object), missing, ""), None


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


def _dates(cells: "pl.Series", known: str | None) -> "tuple[pl.Series | None, str | None]":
    if not len(cells) or not _LOOKS_LIKE_A_DATE.search(str(cells[0])):
        return None, None
    formats = [day + time for day in _DAYS for time in _TIMES]
    for form in ([known] if known else []) + formats:
        # One cell is cheap, and rules out nearly every format.
        if cells[:1].str.to_datetime(form, strict=False).null_count():
            continue
        dates = cells.str.to_datetime(form, strict=False)
        if not dates.null_count() and (dates.dt.year() >= 1000).all():
            return dates.dt.replace_time_zone(None), form
    return None, None
