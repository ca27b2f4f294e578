"""Files that unpack to far more than they are: refused in one sentence before they fill the memory."""

import gzip
import subprocess
import sys
import time
import zipfile

import numpy as np
import polars as pl
import pytest
import xlsxwriter

from finitewidth.tables import memory
from finitewidth.tables.reading import read_table
from finitewidth.tables.study.preparation import Options, prepare

SHEET = b"<worksheet xmlns='http://schemas.openxmlformats.org/spreadsheetml/2006/main'><sheetData>"
CHILD = """
import resource, sys
import polars, fastexcel
from finitewidth.tables import memory
from finitewidth.tables.reading import read_table

memory._MOST_CELLS, memory._MOST_BYTES = 1_000_000, 40_000_000
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
before = peak()
try:
    read_table(sys.argv[1])
except ValueError as error:
    print(peak() - before, error)
"""


def peak_of(path) -> tuple[int, str]:
    """Megabytes that reading a file takes beyond those of the libraries, and what is said about it."""
    found = subprocess.run(
        [sys.executable, "-c", CHILD, str(path)], capture_output=True, text=True, check=True
    )
    megabytes, _, sentence = found.stdout.strip().partition(" ")
    return int(megabytes), sentence


def workbook(path, cells: dict[tuple[int, int], float]) -> None:
    book = xlsxwriter.Workbook(path)
    sheet = book.add_worksheet()
    for place, value in cells.items():
        sheet.write(*place, value)
    book.close()


def with_sheet(path, piece: bytes, times: int) -> None:
    """A workbook whose first sheet is one piece of text, many times."""
    workbook(path, {(0, 0): 1})
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            if not name.endswith("sheet1.xml"):
                archive.writestr(name, content)
        with archive.open("xl/worksheets/sheet1.xml", "w") as sheet:
            sheet.write(SHEET)
            for _ in range(times):
                sheet.write(piece)
            sheet.write(b"</sheetData></worksheet>")


def test_a_bomb_in_gzip_takes_little_memory(tmp_path):
    path = tmp_path / "bomb.csv.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(b"a,b\n")
        for _ in range(100):
            file.write(b"1,2\n" * 2**18)
    megabytes, sentence = peak_of(path)
    assert path.stat().st_size < 10**6
    assert sentence.startswith(
        f"{path} has 524,288 rows or more in 2 columns; a table may have 1,000,000 cells"
    )
    assert megabytes < 40


@pytest.mark.parametrize(
    ("piece", "words"),
    [
        (b"<row><c><v>1</v></c><c><v>1</v></c></row>" * 5_000, "cells or more; a table may have"),
        (b" " * 10**6, "holds more than 40 MB when it is unpacked"),
    ],
)
def test_a_bomb_in_a_workbook_takes_little_memory(tmp_path, piece, words):
    path = tmp_path / "bomb.xlsx"
    with_sheet(path, piece, 400)
    megabytes, sentence = peak_of(path)
    assert path.stat().st_size < 10**6
    assert words in sentence
    assert megabytes < 40


def test_one_cell_in_the_last_place_of_a_sheet_is_no_end_of_the_process(tmp_path):
    path = tmp_path / "far.xlsx"
    workbook(path, {(0, 0): 1, (0, 1): 2, (1, 0): 3, (2**20 - 1, 2**14 - 1): 4})
    megabytes, sentence = peak_of(path)
    assert sentence.startswith(f"{path} has 1,048,576 rows or more in 16,384 columns; a table may have")
    assert megabytes < 40


@pytest.mark.parametrize(("place", "large"), [((999, 0), False), ((0, 25), False), ((999, 25), True)])
def test_a_sheet_is_as_large_as_its_last_row_times_its_last_column(tmp_path, monkeypatch, place, large):
    monkeypatch.setattr(memory, "_MOST_CELLS", 20_000)
    workbook(tmp_path / "t.xlsx", {(0, 0): 1, (0, 1): 2, (1, 0): 3, (1, 1): 4, place: 5})
    if large:
        with pytest.raises(ValueError, match="has 1,000 rows or more in 26 columns"):
            read_table(tmp_path / "t.xlsx")
    else:
        assert read_table(tmp_path / "t.xlsx").rows >= 1


def test_the_sheet_that_is_asked_for_is_read_and_the_others_are_told(tmp_path):
    book = xlsxwriter.Workbook(tmp_path / "t.xlsx")
    for name, title, value in (("A", [], 1), ("far", [], 2), ("Titled", [("Sales",)], 3)):
        sheet = book.add_worksheet(name)
        for row, cells in enumerate([*title, ("a", "b", "c"), (value, 4, "u")]):
            sheet.write_row(row, 0, cells)
        if name == "far":
            sheet.write(2**20 - 1, 2**14 - 1, 1)
    book.close()
    first, titled = read_table(tmp_path / "t.xlsx"), read_table(tmp_path / "t.xlsx", sheet="Titled")
    assert {name: column.tolist() for name, column in first.columns.items()} == {
        "a": [1],
        "b": [4],
        "c": ["u"],
    }
    assert first.notes == (
        "the first sheet of t.xlsx, 'A', was read, not 'far', 'Titled'; predict --sheet takes another.",
    )
    assert {name: column.tolist() for name, column in titled.columns.items()} == {
        "a": [3],
        "b": [4],
        "c": ["u"],
    }
    assert titled.notes == ("the line 'Sales' above the header of t.xlsx was left out.",)
    with pytest.raises(ValueError, match=r"t.xlsx has 1,048,576 rows or more in 16,384 columns"):
        read_table(tmp_path / "t.xlsx", sheet="far")
    with pytest.raises(ValueError, match=r"t.xlsx has no sheet 'B'; it has 'A', 'far', 'Titled'"):
        read_table(tmp_path / "t.xlsx", sheet="B")


def test_packed_arrays_and_parquet_are_counted_before_they_are_read(tmp_path, monkeypatch):
    np.savez_compressed(tmp_path / "zeros.npz", x=np.zeros((10**6, 3)))
    np.savez(tmp_path / "plain.npz", x=np.zeros((10**6, 3)))
    pl.DataFrame({"a": np.zeros(10**6), "b": np.zeros(10**6)}).write_parquet(tmp_path / "t.parquet")
    monkeypatch.setattr(memory, "_MOST_CELLS", 10**6)
    monkeypatch.setattr(memory, "_MOST_BYTES", 10**7)
    with pytest.raises(ValueError, match=r"zeros.npz holds more than 10 MB when it is unpacked"):
        read_table(tmp_path / "zeros.npz")
    assert read_table(tmp_path / "plain.npz").rows == 10**6
    with pytest.raises(ValueError, match=r"t.parquet has 1,000,000 rows or more in 2 columns"):
        read_table(tmp_path / "t.parquet")


def test_thousands_of_columns_take_a_second(tmp_path, rng):
    columns = 3_000
    np.savetxt(tmp_path / "wide.csv", rng.normal(size=(40, columns)), delimiter=",", fmt="%.4g")
    started = time.process_time()
    data = prepare(read_table(tmp_path / "wide.csv"), None, Options())
    assert data.x_train.shape == (32, columns - 1)
    # Column by column in polars and scikit-learn it was seven.
    assert time.process_time() - started < 3


def test_a_share_of_the_machine_bounds_what_is_read(monkeypatch):
    monkeypatch.setattr(memory, "_memory", lambda: 10**9)
    assert memory.most_bytes() == 62_500_000
    assert memory.most_cells() == 2_500_000
