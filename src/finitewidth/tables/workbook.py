"""XLSX workbooks: their sheets, and how large they are before anything reads them whole."""

import io
import posixpath
import re
import zipfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

from finitewidth.tables.memory import refuse_many_bytes, refuse_many_cells

if TYPE_CHECKING:
    import polars as pl

_BYTES_AT_ONCE, _OVERLAP = 2**20, 64
_MOST_TITLES = 5
_BOOK, _RELATIONS, _SHEETS = "xl/workbook.xml", "xl/_rels/workbook.xml.rels", "xl/worksheets/"
# The place of a cell or of a row, such as r="XFD1048576".
_PLACE = re.compile(rb"""\br\s*=\s*["']([A-Za-z]{0,3})(\d*)["']""")


def read_workbook(path: Path, sheet: str | None) -> tuple["pl.DataFrame", list[str]]:
    """One sheet, the first unless it is named, under the names in its first row; and what to say about it."""
    import fastexcel
    import polars as pl

    try:
        with zipfile.ZipFile(path) as archive:
            sheets = _sheets(archive)
            chosen = _chosen(path, list(sheets), sheet)
            _refuse_large(path, archive, sheets[chosen])
        # Read as bytes: the reader keeps a file open.
        frame, notes = _without_titles(path, path.read_bytes(), chosen)
    except pl.exceptions.NoDataError:
        where = "first sheet" if sheet is None else f"sheet {sheet!r}"
        raise ValueError(f"{path} holds no rows of data in its {where}.") from None
    except (
        fastexcel.FastExcelError, pl.exceptions.PolarsError, OSError, EOFError, zipfile.BadZipFile,
        zlib.error, NotImplementedError, RuntimeError, KeyError, ElementTree.ParseError,
    ):  # fmt: skip
        raise ValueError(f"{path} is not an XLSX file, or it is damaged.") from None
    if sheet is None and len(sheets) > 1:
        others = ", ".join(map(repr, list(sheets)[1:4])) + (" ..." if len(sheets) > 4 else "")
        read = f"the first sheet of {path.name}, {chosen!r}, was read, not {others}"
        notes.insert(0, f"{read}; predict --sheet takes another.")
    return frame, notes


def _chosen(path: Path, sheets: list[str], sheet: str | None) -> str:
    if not sheets:
        raise KeyError(_BOOK)
    if sheet is not None and sheet not in sheets:
        raise ValueError(f"{path} has no sheet {sheet!r}; it has {', '.join(map(repr, sheets[:12]))}.")
    return sheet or sheets[0]


def _without_titles(path: Path, content: bytes, sheet: str) -> tuple["pl.DataFrame", list[str]]:
    """The sheet below its header; rows above the header that have one cell are left out."""
    notes: list[str] = []
    frame = _sheet(content, sheet, 0)
    for row in range(1, _MOST_TITLES + 1):
        names = [name for name in frame.columns if not name.startswith("__UNNAMED__")]
        if len(frame.columns) < 3 or len(names) != 1:
            break
        frame = _sheet(content, sheet, row)
        notes.append(f"the line {names[0]!r} above the header of {path.name} was left out.")
    unnamed = {name: "" for name in frame.columns[:1] if name.startswith("__UNNAMED__")}
    return frame.rename(unnamed), notes


def _sheet(content: bytes, sheet: str, header: int) -> Any:
    import polars as pl

    return pl.read_excel(
        io.BytesIO(content),
        sheet_name=sheet,
        engine="calamine",
        infer_schema_length=None,
        read_options={"header_row": header},
    )


def _sheets(archive: zipfile.ZipFile) -> dict[str, str]:
    """The names of the sheets, in their order, and the member of the archive that holds each."""
    refuse_many_bytes(archive.filename, sum(archive.getinfo(name).file_size for name in (_BOOK, _RELATIONS)))
    targets = {
        relation.get("Id"): str(relation.get("Target"))
        for relation in ElementTree.fromstring(archive.read(_RELATIONS))
    }
    return {
        str(part.get("name")): posixpath.normpath(posixpath.join("/xl", targets[identity])).lstrip("/")
        for part in ElementTree.fromstring(archive.read(_BOOK)).iter()
        if part.tag.endswith("}sheet")
        for key, identity in part.attrib.items()
        if key.endswith("}id")
    }


def _refuse_large(path: Path, archive: zipfile.ZipFile, sheet: str) -> None:
    """Refuse a workbook that unpacks to too many bytes, or whose sheet spans too many cells.

    The reader makes room for all cells between the first and the last, empty or not.
    """
    total = 0
    for member in archive.infolist():
        # Other sheets are not read.
        if member.filename != sheet and _SHEETS in member.filename:
            continue
        rows, columns, cells, tail = 0, 0, 0, b""
        with archive.open(member) as file:
            while part := file.read(_BYTES_AT_ONCE):
                total += len(part)
                refuse_many_bytes(path, total)
                if member.filename == sheet:
                    for letters, digits in set(_PLACE.findall(tail + part)):
                        rows = max(rows, int(digits or 0))
                        columns = max(columns, _column_number(letters))
                    tail = part[-_OVERLAP:]
                    # Cells need not say their place.
                    cells += part.count(b"<c>") + part.count(b"<c ")
                    refuse_many_cells(path, rows, columns)
                    refuse_many_cells(path, cells, 1)


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters.upper():
        number = 26 * number + letter - 64
    return number
