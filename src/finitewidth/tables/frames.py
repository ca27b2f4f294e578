"""Data frames of any library as columns of numbers, words and dates."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from finitewidth.tables.cells import parse, plain_numbers, uses_decimal_commas
from finitewidth.tables.table import Column, Odd

if TYPE_CHECKING:
    import polars as pl


class FrameColumns(NamedTuple):
    """Columns of a data frame, what was found in them, and what to say about them; see `Table`."""

    columns: dict[str, Column]
    notes: tuple[str, ...]
    formats: dict[str, str]
    odd: dict[str, Odd]
    units: dict[str, str]


def is_frame(source: object) -> bool:
    """Whether this is a data frame that narwhals knows, such as one of pandas or polars."""
    # Narwhals loads in a tenth of a second: nothing that could not be a data frame makes it.
    if isinstance(source, str | np.ndarray | list | tuple) or not hasattr(type(source), "columns"):
        return False
    import narwhals as nw

    return isinstance(nw.from_native(source, pass_through=True), nw.DataFrame | nw.LazyFrame)


def frame_columns(
    source: Any, name: str, known: Mapping[str, str], commas_likely: bool = False
) -> FrameColumns:
    """Every column of a data frame; `known` are formats of dates to try first.

    `commas_likely` says that 1,234 has a decimal comma rather than a thousand, as in files with semicolons.

    Text is read as in a file, so that a column of digits in quotes is a column of numbers.
    """
    import narwhals as nw

    frame = nw.from_native(source)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    notes, columns, formats, odd, units = [], {}, {}, {}, {}
    texts = {s.name: _cells(s) for s in frame.iter_columns() if _is_text(s)}
    numbers = plain_numbers(texts)
    commas = [
        column
        for column, text in texts.items()
        if column not in numbers and uses_decimal_commas(text, commas_likely)
    ]
    if commas:
        # What looks like a number with a point may be thousands.
        numbers = {}
        notes.append(f"{name} writes decimal commas: in column {commas[0]!r}, 1,5 was read as 1.5.")
    for series in frame.iter_columns():
        if series.name in numbers:
            columns[str(series.name)] = numbers[series.name]
        elif series.name in texts:
            own, parsed = str(series.name), parse(texts[series.name], bool(commas), known.get(series.name))
            columns[own] = parsed.column
            notes += [f"column {own!r} of {name}: {remark}" for remark in parsed.remarks]
            if parsed.form is not None:
                formats[own] = parsed.form
            if parsed.odd is not None:
                odd[own] = parsed.odd
            if parsed.unit is not None:
                units[own] = parsed.unit
        else:
            columns[str(series.name)] = _typed(series, name)
    return FrameColumns(columns, tuple(notes), formats, odd, units)


def _cells(series: Any) -> "pl.Series":
    import polars as pl

    native = series.to_native()
    if isinstance(native, pl.Series):
        return native.cast(pl.String)
    # Pandas has NaN where text is missing, and NaN is not equal to itself.
    return pl.Series([None if v is None or v != v else str(v) for v in series.to_list()], dtype=pl.String)


def _is_text(series: Any) -> bool:
    import narwhals as nw

    if series.dtype == nw.Object:
        return all(
            value is None or value != value or isinstance(value, bool | int | float | str)
            for value in series.to_list()
        )
    return series.dtype in (nw.String, nw.Categorical) or isinstance(series.dtype, nw.Enum)


def _typed(series: Any, name: str) -> Column:
    import narwhals as nw

    kind = series.dtype
    missing = series.is_null().to_numpy().astype(bool)
    if kind.is_numeric():
        values = series.cast(nw.Float32 if kind == nw.Float32 else nw.Float64).to_numpy()
        return np.where(missing, np.nan, np.asarray(values)).astype(values.dtype)
    if kind == nw.Boolean:
        words = [
            "" if gap else str(bool(v)).lower() for v, gap in zip(series.to_list(), missing, strict=True)
        ]
        return np.array(words, object)
    if kind == nw.Date or isinstance(kind, nw.Datetime):
        values = [None if gap else v for v, gap in zip(series.to_list(), missing, strict=True)]
        plain = [
            v.replace(tzinfo=None) if v is not None and getattr(v, "tzinfo", None) else v for v in values
        ]
        return np.array(plain, "datetime64[us]")
    if isinstance(kind, nw.Duration):
        return np.asarray(series.dt.total_microseconds().cast(nw.Float64).to_numpy()) / 86_400e6
    raise ValueError(
        f"column {series.name!r} of {name} holds values of type {kind}; columns are numbers, words or dates."
    )
