"""Delimited text: encoding, separator, header and ragged rows."""

import csv
import gzip
import io
import itertools
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import polars as pl

_SEPARATORS = ",;\t|"
_SHOWN_ROWS = 20


class TextTable(NamedTuple):
    """Columns of text under their names; `nameless` when the file had none and they are numbered."""

    frame: "pl.DataFrame"
    notes: list[str]
    nameless: bool
    separator: str


def read_text(path: Path) -> TextTable:
    """The cells of a CSV, TSV or semicolon-separated file, gzipped or not."""
    notes: list[str] = []
    text, comment = _without_comments(_decoded(path, notes))
    if not text.strip():
        raise ValueError(f"{path} is empty.")
    separator = _separator(text)
    frame = _cells(path, text, separator)
    first = ["" if cell is None else cell.strip() for cell in frame.row(0)]
    named = comment is not None and all(map(_is_number, first)) and comment.count(separator) + 1 == len(first)
    if named and comment is not None:
        header = [cell.strip().strip('"') for cell in comment.split(separator)]
    elif all(map(_is_number, first)):
        header = [str(i + 1) for i in range(len(first))]
    else:
        # Further columns without a name are called by their place; the first may be an index.
        header = [cell or ("" if i == 0 else f"column {i + 1}") for i, cell in enumerate(first)]
        frame = frame[1:]
    repeated = [name for name in header if header.count(name) > 1]
    if repeated:
        raise ValueError(f"{path} has two columns named {repeated[0]!r}.")
    frame.columns = header
    return TextTable(frame, notes, header == [str(i + 1) for i in range(len(header))], separator)


def _decoded(path: Path, notes: list[str]) -> str:
    raw = path.read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (OSError, EOFError, zlib.error):
            raise ValueError(f"{path} is a gzip file that breaks off or is damaged.") from None
    wide = raw[:2] in (b"\xff\xfe", b"\xfe\xff")
    encodings = ("utf-16",) if wide else ("utf-8-sig", "cp1252", "latin-1")
    if b"\x00" in raw[:4096] and not wide:
        raise ValueError(f"{path} is not a text file: it holds zero bytes.")
    for encoding in encodings:
        try:
            text = raw.decode(encoding)
        except UnicodeDecodeError:
            continue
        if encoding in ("cp1252", "latin-1"):
            notes.append(f"{path.name} is not in UTF-8; it was read as Western European text ({encoding}).")
        return text if "\n" in text else text.replace("\r", "\n")
    raise ValueError(f"{path} is not a text file in UTF-8, UTF-16 or Latin-1.")


def _without_comments(text: str) -> tuple[str, str | None]:
    """The text after its leading lines that begin with #, and the last of these."""
    comment = None
    while text.startswith("#"):
        line, _, text = text.partition("\n")
        comment = line.lstrip("#").strip()
    return text.strip("\r\n"), comment


@contextmanager
def _cells_of_any_length() -> Iterator[None]:
    before = csv.field_size_limit(sys.maxsize)
    try:
        yield
    finally:
        csv.field_size_limit(before)


def _separator(text: str) -> str:
    """The separator that cuts the first rows into equally many cells, and the most of them."""

    def score(separator: str) -> tuple[bool, int]:
        rows = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
        lengths = [len(row) for row in itertools.islice(rows, _SHOWN_ROWS) if row]
        return len(set(lengths)) == 1 and lengths[0] > 1, lengths[0]

    with _cells_of_any_length():
        return max(_SEPARATORS, key=score)


def _cells(path: Path, text: str, separator: str) -> "pl.DataFrame":
    import polars as pl

    try:
        frame = pl.read_csv(
            text.encode(), separator=separator, has_header=False, infer_schema=False, encoding="utf8"
        )
    except pl.exceptions.PolarsError:
        return _checked_cells(path, text, separator)
    # A row that breaks off, a blank line and an empty last cell look alike.
    return frame if not frame[:, -1].null_count() else _checked_cells(path, text, separator)


def _checked_cells(path: Path, text: str, separator: str) -> "pl.DataFrame":
    """The same, row by row; refuses rows that are longer or shorter than the first."""
    import polars as pl

    with _cells_of_any_length():
        try:
            rows = [
                row for row in csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
            ]
        except csv.Error as error:
            raise ValueError(f"{path} is not a table of text: {error}.") from None
    rows = [row for row in rows if row]
    width = len(rows[0])
    header = not all(map(_is_number, rows[0]))
    for number, row in enumerate(rows, start=0 if header else 1):
        if len(row) != width:
            cells = "one cell" if len(row) == 1 else f"{len(row)} cells"
            first = "header" if header else "first row"
            raise ValueError(f"row {number} of {path} has {cells}; its {first} has {width}.")
    return pl.DataFrame(rows, schema=[(f"column_{i}", pl.String) for i in range(width)], orient="row")


def _is_number(cell: str) -> bool:
    try:
        float(cell.replace(",", ".", 1))
    except ValueError:
        return False
    return True
