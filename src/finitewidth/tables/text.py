"""Delimited text: encoding, separator, header and ragged rows."""

import csv
import gzip
import io
import itertools
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from finitewidth.tables.memory import refuse_many_bytes, refuse_many_cells

if TYPE_CHECKING:
    import polars as pl

_SEPARATORS = ",;\t|"
_SHOWN_ROWS = 20
_MOST_TITLES = 5
_BYTES_AT_ONCE = 2**20


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
    text, titles = _without_titles(text)
    notes += [f"the line {title!r} above the header of {path.name} was left out." for title in titles]
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
    seen = Counter(header)
    repeated = [name for name in header if seen[name] > 1]
    if repeated:
        raise ValueError(f"{path} has two columns named {repeated[0]!r}.")
    frame.columns = header
    return TextTable(frame, notes, header == [str(i + 1) for i in range(len(header))], separator)


def _unpacked(path: Path) -> bytes:
    """The bytes of a file, out of gzip where they are in it, if there are not too many bytes or cells."""
    with path.open("rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    parts, count, rows, columns = [], 0, 0, 1
    try:
        with gzip.open(path) if zipped else path.open("rb") as file:
            while part := file.read(_BYTES_AT_ONCE):
                if not parts:
                    first = part.lstrip(b"\r\n").splitlines()[:1] or [b""]
                    columns = 1 + max(first[0].count(separator.encode()) for separator in _SEPARATORS)
                parts.append(part)
                count += len(part)
                rows += max(part.count(b"\n"), part.count(b"\r"))
                refuse_many_bytes(path, count)
                refuse_many_cells(path, rows, columns)
    except (EOFError, zlib.error, gzip.BadGzipFile):
        raise ValueError(f"{path} is a gzip file that breaks off or is damaged.") from None
    return b"".join(parts)


def _decoded(path: Path, notes: list[str]) -> str:
    raw = _unpacked(path)
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


def _without_titles(text: str) -> tuple[str, list[str]]:
    """The text without lines above the header that have one cell, where the rows below have several."""
    with _cells_of_any_length():
        shown = {}
        for separator in _SEPARATORS:
            reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
            with suppress(csv.Error):
                shown[separator] = list(itertools.islice(reader, _SHOWN_ROWS))
        lengths = [{len(row) for row in rows if row} for rows in shown.values()]
        if any(len(found) == 1 and max(found) == 2 for found in lengths):
            return text, []
        for separator, rows in shown.items():
            filled = [[cell for cell in row if cell.strip()] for row in rows]
            start = next((i for i, cells in enumerate(filled) if len(cells) > 1), 0)
            if not 0 < start <= _MOST_TITLES or start + 1 >= len(rows):
                continue
            header, below = rows[start], [row for row in rows[start:] if row]
            named = len(filled[start]) == len(header) and not all(map(_is_number, header))
            # Of two cells, one empty, the first row may as well be a header.
            title = len(rows[0]) == 1 or len(header) > 2
            if named and title and {len(row) for row in below} == {len(header)}:
                titles = [cells[0].strip() for cells in filled[:start] if cells]
                return _after_rows(text, separator, start), titles
    return text, []


def _after_rows(text: str, separator: str, count: int) -> str:
    """The text after so many rows, line breaks in quotes included."""
    lines = io.StringIO(text, newline="")
    reader = csv.reader(iter(lines.readline, ""), delimiter=separator)
    for _ in range(count):
        next(reader)
    return lines.read()


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
