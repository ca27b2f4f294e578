"""Tables from files, data frames and the names of built-in data sets."""

import math
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from finitewidth._base.checks import no_file
from finitewidth.tables.built_in_tables import BUILT_IN, built_in_table
from finitewidth.tables.frames import frame_columns, is_frame
from finitewidth.tables.memory import refuse_many_bytes, refuse_many_cells
from finitewidth.tables.table import Column, Odd, Table
from finitewidth.tables.text import read_text

FORMATS = ".csv, .tsv, .txt (each also .gz), .parquet, .xlsx, .npz or .npy"

# Rows, three axes of positions, channels.
_MOST_AXES = 5

# What NumPy and zipfile raise, depending on the byte that is wrong.
_DAMAGE = (
    ValueError, OSError, EOFError, AttributeError, TypeError, KeyError, NotImplementedError, RuntimeError,
    MemoryError, OverflowError, SyntaxError, struct.error, tokenize.TokenError, zipfile.BadZipFile,
    zlib.error,
)  # fmt: skip


class _Read(NamedTuple):
    """What one reader gets out of a file."""

    columns: dict[str, Column]
    notes: tuple[str, ...] = ()
    formats: Mapping[str, str] = {}
    odd: Mapping[str, Odd] = {}
    units: Mapping[str, str] = {}
    nameless: bool = False
    target: str | None = None
    shape: tuple[int, ...] = ()


def read_table(
    source: Any, like: Table | None = None, images: bool = False, sheet: str | None = None
) -> Table:
    """A table from a file, a data frame, an array, or the name of a built-in data set.

    Parameters
    ----------
    source
        The path of a CSV, TSV or semicolon-separated file (gzipped or not), of a Parquet, XLSX, NPZ or NPY
        file; a data frame of pandas, polars or another library that narwhals knows; a (rows, columns)
        array; or breast_cancer, diabetes, digits, iris, wine.
    like
        A table whose way of writing dates is tried first, for new rows of the same kind.
    images
        Whether an NPZ file may hold images, (rows, *positions, channels); `Table.shape` then has their axes.
    sheet
        Name of the sheet of an XLSX file; the first one if it is not given. Other files have no sheets.
    """
    known = {} if like is None else like.formats
    if is_frame(source):
        found = frame_columns(source, "the data frame", known)
        return _checked("data frame", Table("data", **found._asdict()))
    if isinstance(source, np.ndarray):
        return _checked("the array", Table("data", _array_columns("", "the array", source), nameless=True))
    source = str(source)
    if source in BUILT_IN:
        return built_in_table(source)
    path = Path(source)
    suffix = path.with_suffix("").suffix.lower() if path.suffix.lower() == ".gz" else path.suffix.lower()
    if suffix not in _READERS or (suffix not in _TEXT and path.suffix.lower() == ".gz"):
        if path.is_dir():
            raise ValueError(f"{source} {no_file(path)}.")
        raise ValueError(f"{source!r} is neither a data set ({', '.join(BUILT_IN)}) nor a {FORMATS} file.")
    wrong = no_file(path)
    if wrong is not None:
        raise ValueError(f"{source} {wrong}.")
    read = _from_xlsx(path, known, sheet) if suffix == ".xlsx" else _READERS[suffix](path, known)
    if read.shape and not images:
        raise ValueError(
            f"{source} holds images of shape {read.shape}; here columns are needed, (rows, columns)."
        )
    name = path.name.split(".")[0] if path.suffix.lower() == ".gz" else path.stem
    return _checked(source, Table(name, **read._asdict()))


def _checked(source: str, table: Table) -> Table:
    """Refuse tables without rows, and columns of unequal length."""
    lengths = {name: len(column) for name, column in table.columns.items()}
    if not lengths or max(lengths.values()) == 0:
        raise ValueError(f"{source} holds no rows of data.")
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the columns of {source} differ in length: {listed}.")
    return table


def _from_text(path: Path, known: Mapping[str, str]) -> _Read:
    text = read_text(path)
    if not len(text.frame):
        raise ValueError(f"{path} holds no rows of data, only a header.")
    found = frame_columns(text.frame, path.name, known, commas_likely=text.separator == ";")
    return _Read(*found._replace(notes=(*text.notes, *found.notes)), nameless=text.nameless)


def _from_frame(path: Path, frame: Any, known: Mapping[str, str]) -> _Read:
    found = frame_columns(frame, path.name, known)
    return _Read(*found)


def _from_parquet(path: Path, known: Mapping[str, str]) -> _Read:
    import polars as pl

    try:
        lazy = pl.scan_parquet(path)
        rows = int(lazy.select(pl.len()).collect().item())
        refuse_many_cells(path, rows, len(lazy.collect_schema()))
        frame = pl.read_parquet(path)
    except (pl.exceptions.PolarsError, OSError):
        raise ValueError(f"{path} is not a Parquet file, or it is damaged.") from None
    return _from_frame(path, frame, known)


def _from_xlsx(path: Path, known: Mapping[str, str], sheet: str | None = None) -> _Read:
    """One sheet, the first unless another is named."""
    from finitewidth.tables.workbook import read_workbook

    frame, notes = read_workbook(path, sheet)
    read = _from_frame(path, frame, known)
    return read._replace(notes=(*notes, *read.notes))


def _from_npz(path: Path, known: Mapping[str, str]) -> _Read:
    """Arrays with one axis are columns, arrays with two give one column for each of theirs.

    An array with more holds images, and beside it there may be the labels.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            # Measurements are never packed a hundredfold, zeros by the billion are.
            suspicious = [m.file_size for m in archive.infolist() if m.file_size > 100 * m.compress_size]
            refuse_many_bytes(path, sum(suspicious))
    except zipfile.BadZipFile:
        raise ValueError(f"{path} is not an .npz file of plain arrays, or it is damaged.") from None
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except _DAMAGE:
        raise ValueError(f"{path} is not an .npz file of plain arrays, or it is damaged.") from None
    columns: dict[str, Column] = {}
    pixels: dict[str, Column] = {}
    shape = ()
    for name, array in arrays.items():
        what = f"the array {name!r} of {path}"
        if array.ndim <= 2:
            columns |= _array_columns(name, what, array)
        elif pixels:
            raise ValueError(f"{what} is the second one with images; a file may hold one.")
        else:
            pixels, shape = _array_columns(name, what, _pixels(what, array)), array.shape[1:]
    if not pixels:
        return _Read(columns, target="y" if "y" in columns else None)
    if len(columns) > 1:
        raise ValueError(
            f"{path} holds images, and beside them may be one label for each, not {list(columns)}."
        )
    images, labels = (len(next(iter(part.values()), ())) for part in (pixels, columns))
    if columns and images != labels:
        raise ValueError(f"{path} holds {images} images and {labels} labels; give one label for each image.")
    return _Read(pixels | columns, target=next(iter(columns), None), shape=shape)


def _pixels(what: str, images: np.ndarray) -> np.ndarray:
    """Images (rows, *positions, channels) as a matrix, one row for each."""
    if images.ndim > _MOST_AXES or images.dtype.kind not in "biuf" or 0 in images.shape[1:]:
        raise ValueError(
            f"{what} has shape {images.shape} and type {images.dtype}; images are numbers, (rows, "
            "*positions, channels), with one to three axes of positions."
        )
    rows = images.reshape(len(images), -1) if images.size else np.empty((0, math.prod(images.shape[1:])))
    broken = ~np.isfinite(rows).all(axis=1)
    if broken.any():
        raise ValueError(f"{what} holds NaN or infinite values, first in row {np.argmax(broken) + 1}.")
    return rows if rows.dtype == np.float32 else rows.astype(float)


def _from_npy(path: Path, known: Mapping[str, str]) -> _Read:
    try:
        with path.open("rb") as file:
            array = np.load(file, allow_pickle=False)
    except _DAMAGE:
        raise ValueError(f"{path} is not a .npy file of a plain array, or it is damaged.") from None
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} holds several arrays ({', '.join(array.files)}): call it .npz.")
    if array.ndim == 1:
        raise ValueError(
            f"{path} has shape {array.shape}; a table has rows and columns: reshape it to ({len(array)}, 1)."
        )
    return _Read(_array_columns("", str(path), array), nameless=True)


def _array_columns(name: str, what: str, array: np.ndarray) -> dict[str, Column]:
    if array.ndim not in (1, 2) or array.dtype.kind not in "biufUSMT":
        raise ValueError(
            f"{what} has shape {array.shape} and type {array.dtype}; columns are numbers, words or dates, "
            "(rows,) or (rows, columns)."
        )
    start = 0 if name else 1
    parts = (
        {name: array} if array.ndim == 1 else {f"{name}{i}": c for i, c in enumerate(array.T, start=start)}
    )
    return {part: _array_column(values) for part, values in parts.items()}


def _array_column(values: np.ndarray) -> Column:
    kind = values.dtype.kind
    if kind == "f":
        return values if values.dtype in (np.float32, np.float64) else values.astype(float)
    if kind == "b":
        return np.where(values, "true", "false").astype(object)
    if kind in "iu":
        return values.astype(float)
    if kind == "M":
        return values.astype("datetime64[us]")
    import polars as pl

    from finitewidth.tables.cells import parse

    return parse(pl.Series(values.astype(str).tolist(), dtype=pl.String), False, None).column


_TEXT: dict[str, Callable[[Path, Mapping[str, str]], _Read]] = dict.fromkeys(
    (".csv", ".tsv", ".txt", ".tab"), _from_text
)
_READERS = _TEXT | {".parquet": _from_parquet, ".xlsx": _from_xlsx, ".npz": _from_npz, ".npy": _from_npy}
