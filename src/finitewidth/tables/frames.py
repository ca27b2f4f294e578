"""Data frames of any library as columns of numbers, words and dates."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from finitewidth.tables.cells import parse, uses_decimal_commas
from finitewidth.tables.table import Column


class FrameColumns(NamedTuple):
    """Columns of a data frame, the formats of its dates, and what to say about them."""

    columns: dict[str, Column]
    formats: dict[str, str]
    notes: list[str]


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
    import polars as pl

    frame = nw.from_native(source)
    if isinstance(frame, nw.LazyFrame):
        frame = frame.collect()
    notes, columns, formats = [], {}, {}
    texts = {s.name: pl.Series(_cells(s), dtype=pl.String) for s in frame.iter_columns() if _is_text(s)}
    commas = [column for column, text in texts.items() if uses_decimal_commas(text, commas_likely)]
    if commas:
        notes.append(f"{name} writes decimal commas: in column {commas[0]!r}, 1,5 was read as 1.5.")
    for series in frame.iter_columns():
        if series.name in texts:
            text = texts[series.name]
            columns[str(series.name)], form = parse(text, bool(commas), known.get(series.name))
            if form is not None:
                formats[str(series.name)] = form
        else:
            columns[str(series.name)] = _typed(series, name)
    return FrameColumns(columns, formats, notes)


def _cells(series: Any) -> list[str | None]:
    # Pandas has NaN where text is missing, and NaN is not equal to itself.
    return [None if value is None or value != value else str(value) for value in series.to_list()]


def _is_text(series: Any) -> bool:
    import narwhals as nw

    if series.dtype == nw.Object:
        return all(value is None or value != value or isinstance(value, str) for value in series.to_list())
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
    if all(
        gap or isinstance(v, bool | int | float | str)
        for v, gap in zip(series.to_list(), missing, strict=True)
    ):
        # Values of several types in one column, as spreadsheets have: words.
        return np.array(
            ["" if gap else str(v) for v, gap in zip(series.to_list(), missing, strict=True)], object
        )
    raise ValueError(
        f"column {series.name!r} of {name} holds values of type {kind}; columns are numbers, words or dates."
    )
