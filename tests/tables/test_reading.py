"""One reader for every format: what is read, what is said about it, and what cannot be read."""

import gzip
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import polars as pl
import pytest

from finitewidth.tables.built_in_tables import BUILT_IN
from finitewidth.tables.reading import read_table


def columns(path) -> dict:
    return {name: c.tolist() for name, c in read_table(path).columns.items()}


def write(tmp_path, text: str, name: str = "t.csv", encoding: str = "utf-8"):
    (tmp_path / name).write_bytes(text.encode(encoding))
    return tmp_path / name


def test_numbers_words_and_gaps(tmp_path):
    path = write(tmp_path, 'weight,maker,"price, net"\n1.5,Ford,10\n,Opel,NaN\n2e0,"",30\n', "cars.csv")
    table = read_table(path)
    assert (table.name, table.rows, table.target, table.notes) == ("cars", 3, None, ())
    np.testing.assert_array_equal(table.columns["weight"], [1.5, np.nan, 2.0])
    assert table.columns["maker"].tolist() == ["Ford", "Opel", ""]
    np.testing.assert_array_equal(table.columns["price, net"], [10, np.nan, 30])


def test_line_breaks_in_quotes_are_kept(tmp_path):
    path = write(tmp_path, 'a,b\n"two\nlines",1\n"say ""yes""",2\n')
    assert columns(path) == {"a": ["two\nlines", 'say "yes"'], "b": [1.0, 2.0]}


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_separators_and_line_ends(tmp_path, separator, end):
    rows = [["a", "b"], ["1", "x"], ["2", "y"]]
    path = write(tmp_path, end.join(separator.join(row) for row in rows) + end)
    assert columns(path) == {"a": [1.0, 2.0], "b": ["x", "y"]}


def test_decimal_commas(tmp_path):
    path = write(tmp_path, "a;b;c;d\n1,5;1.234,25;1.500;x\n-2,25;7;2.000;y\n")
    assert columns(path) == {"a": [1.5, -2.25], "b": [1234.25, 7.0], "c": [1500.0, 2000.0], "d": ["x", "y"]}
    assert read_table(path).notes == ("t.csv writes decimal commas: in column 'a', 1,5 was read as 1.5.",)
    assert columns(write(tmp_path, "a;b\n1,234;5\n")) == {"a": [1.234], "b": [5.0]}
    assert columns(write(tmp_path, 'a,b\n"0,5",1\n"0,75",2\n')) == {"a": [0.5, 0.75], "b": [1.0, 2.0]}


def test_grouped_thousands(tmp_path):
    assert columns(write(tmp_path, 'a,b\n"1,234,567.5",x\n12,y\n')) == {
        "a": [1234567.5, 12.0],
        "b": ["x", "y"],
    }


def test_dots_are_decimal_points_where_nothing_else_is_said(tmp_path):
    assert columns(write(tmp_path, "a;b\n1.500;2\n")) == {"a": [1.5], "b": [2.0]}


def column(tmp_path, cells, name: str = "t.csv"):
    """The table of one column with these cells beside one that counts."""
    return read_table(write(tmp_path, "".join(f"{c};{i}\n" for i, c in enumerate(["a", *cells])), name))


NUMBERS = [f"{1.5 * i:g}" for i in range(12)]


@pytest.mark.parametrize(
    ("cells", "values", "unit"),
    [
        (("5 kg", "7 kg"), [5, 7], "kg"),
        (("5,5kg", "7,25kg"), [5.5, 7.25], "kg"),
        (("$5", "$ 1,234.5"), [5, 1234.5], "$"),
        (("-5 %", "7%"), [-5, 7], "%"),
        (("3 m/s", "", "4 m/s"), [3, np.nan, 4], "m/s"),
        (("3", "4", "5 km"), [3, 4, 5], "km"),
        (("USD 3", "USD 4"), [3, 4], "USD"),
    ],
)
def test_numbers_with_one_unit_are_numbers(tmp_path, cells, values, unit):
    table = column(tmp_path, cells)
    np.testing.assert_array_equal(table.columns["a"], values)
    some = "1 of its numbers, first in row 3" if cells[0] == "3" else "its numbers"
    assert table.notes == (f"column 'a' of t.csv: the unit {unit.strip()!r} was taken off {some}.",)


@pytest.mark.parametrize(
    "cells", [("5 kg", "7 lb"), ("n1", "n2", "n3"), ("1st", "2nd", "3rd"), ("5", "50 %")]
)
def test_numbers_with_several_units_and_names_with_digits_are_words(tmp_path, cells):
    table = column(tmp_path, cells)
    assert table.columns["a"].tolist() == list(cells)
    assert not table.notes


@pytest.mark.parametrize("place", [0, 5, 12])
@pytest.mark.parametrize("cell", ["oops", "Total", "5 %", "<5", "1/2", "12.03.2020"])
def test_an_odd_cell_among_numbers_is_told(tmp_path, cell, place):
    table = column(tmp_path, [*NUMBERS[:place], cell, *NUMBERS[place:]])
    np.testing.assert_array_equal(np.delete(table.columns["a"], place), np.array(NUMBERS, float))
    assert np.isnan(table.columns["a"][place])
    assert table.odd_notes() == [
        f"column 'a' of t holds {cell!r} in row {place + 1} among numbers: it counts as missing."
    ]
    assert table.odd["a"].words[place] == cell


def test_more_than_a_tenth_of_odd_cells_are_words(tmp_path):
    few, many = (column(tmp_path, [*NUMBERS * 2, *["x"] * count]) for count in (2, 3))
    assert few.odd_notes() == [
        "column 'a' of t holds 'x' in row 25 and 1 more such cells among numbers: they count as missing."
    ]
    assert many.columns["a"].tolist() == [*NUMBERS * 2, "x", "x", "x"]


@pytest.mark.parametrize("place", [0, 4, 9])
@pytest.mark.parametrize("odd", ["2020-02-30", "never"])
def test_a_date_that_does_not_exist_is_told(tmp_path, odd, place):
    days = [f"2020-01-{day:02d}" for day in range(1, 10)]
    table = column(tmp_path, [*days[:place], odd, *days[place:]])
    assert np.delete(table.columns["a"], place).astype("datetime64[D]").astype(str).tolist() == days
    assert table.odd_notes() == [
        f"column 'a' of t holds {odd!r} in row {place + 1} among dates: it counts as missing."
    ]


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        (("03/04/2020", "05/06/2020"), True),
        (("03/04/2020", "25/06/2020"), False),
        (("03/04/2020", "06/25/2020"), False),
        (("03/03/2020", "05/05/2020"), False),
        (("2020/03/04", "2020/05/06"), False),
    ],
)
def test_dates_that_can_be_read_in_two_ways_say_how_they_were_read(tmp_path, cells, told):
    sentence = (
        "column 'a' of t.csv: its dates, such as '03/04/2020', fit month/day/year and day/month/year: they "
        "were read as month/day/year."
    )
    assert column(tmp_path, cells).notes == ((sentence,) if told else ())


def test_names_that_look_like_powers_of_ten_are_words(tmp_path):
    names = ["1e5", "23e4", "3e300", "4e1"]
    assert column(tmp_path, names).columns["a"].tolist() == names
    assert column(tmp_path, ["1e5", "2e-7", "3e30"]).columns["a"].tolist() == [1e5, 2e-7, 3e30]


@pytest.mark.parametrize(
    ("above", "separator"),
    [("Sales, by year", ";"), ("Sales 2020;;\n;;", ";"), ('"Sales\nof 2020"', ","), ("Sales\n\nDraft", "\t")],
)
def test_a_title_above_the_header_is_left_out_with_a_word(tmp_path, above, separator):
    rows = "\n".join(separator.join(row) for row in (("a", "b", "c"), ("1", "2", "u"), ("3", "4", "v")))
    path = write(tmp_path, f"{above}\n{rows}\n")
    assert columns(path) == {"a": [1.0, 3.0], "b": [2.0, 4.0], "c": ["u", "v"]}
    titles = [line.strip('";') for line in above.split("\n\n" if "Draft" in above else "\n;;")]
    expected = [f"the line {title!r} above the header of t.csv was left out." for title in titles if title]
    assert list(read_table(path).notes) == expected


def test_values_of_several_types_in_a_column_of_objects():
    frame = pd.DataFrame({"a": pd.Series([1.5, 2, None, "3", "oops", 5, 6, 7.0, 8, 9, 10], dtype=object)})
    table = read_table(frame)
    np.testing.assert_array_equal(table.columns["a"], [1.5, 2, np.nan, 3, np.nan, 5, 6, 7, 8, 9, 10])
    assert table.odd["a"].row == 5


@pytest.mark.parametrize("gap", ["", "NA", "n/a", "NaN", "null", "?", "#N/A", "<NA>"])
def test_words_for_nothing(tmp_path, gap):
    found = read_table(write(tmp_path, f"a,b,c\n1,u,0\n{gap},{gap},1\n")).columns
    np.testing.assert_array_equal(found["a"], [1.0, np.nan])
    assert found["b"].tolist() == ["u", ""]


@pytest.mark.parametrize("gap", ["none", "-", ".", "unknown"])
def test_words_for_nothing_among_numbers_are_words_among_words(tmp_path, gap):
    found = read_table(write(tmp_path, f"a,b,c\n1,u,0\n{gap},{gap},1\n")).columns
    np.testing.assert_array_equal(found["a"], [1.0, np.nan])
    assert found["b"].tolist() == ["u", gap]


def test_truth_is_two_words(tmp_path):
    found = columns(write(tmp_path, "a,b,c\nTrue,TRUE,yes\nfalse,FALSE,no\n"))
    assert found == {"a": ["true", "false"], "b": ["true", "false"], "c": ["yes", "no"]}


@pytest.mark.parametrize(
    ("cells", "days"),
    [
        (("2020-03-01", "2020-02-28"), (18322, 18320)),
        (("2020-03-01 12:00", "2020-02-28 00:00"), (18322.5, 18320)),
        (("2020-03-01T06:00:00Z", "2020-02-28T00:00:00Z"), (18322.25, 18320)),
        (("2020/03/01", "2020/02/28"), (18322, 18320)),
        (("01.03.2020", "28.2.2020"), (18322, 18320)),
        (("3/1/2020", "2/28/2020"), (18322, 18320)),
        (("01/03/2020", "28/02/2020"), (18322, 18320)),
        (("1-Mar-2020", "28-Feb-2020"), (18322, 18320)),
        (("March 1, 2020", "February 28, 2020"), (18322, 18320)),
        (("01.03.20", "28.02.20"), (18322, 18320)),
    ],
)
def test_dates(tmp_path, cells, days):
    path = write(tmp_path, "when;n\n" + "".join(f"{cell};1\n" for cell in (*cells, "")))
    found = read_table(path).columns["when"]
    assert found.dtype.kind == "M"
    assert np.isnat(found[2])
    assert (found[:2].astype("datetime64[us]").astype(float) / 86_400e6).tolist() == list(days)


def test_new_rows_write_their_dates_like_the_first(tmp_path):
    first = read_table(write(tmp_path, "when,n\n25/12/2020,1\n03/04/2020,2\n"))
    path = write(tmp_path, "when,n\n05/06/2020,1\n", "new.csv")
    assert str(read_table(path, like=first).columns["when"][0])[:10] == "2020-06-05"
    assert str(read_table(path).columns["when"][0])[:10] == "2020-05-06"


def test_encodings(tmp_path):
    text = "größe,b\n1,ä\n"
    for encoding in ("utf-8", "utf-8-sig", "utf-16"):
        table = read_table(write(tmp_path, text, encoding=encoding))
        assert (list(table.columns), table.columns["b"].tolist(), table.notes) == (["größe", "b"], ["ä"], ())
    table = read_table(write(tmp_path, text, encoding="latin-1"))
    assert (list(table.columns), table.columns["b"].tolist()) == (["größe", "b"], ["ä"])
    assert table.notes == ("t.csv is not in UTF-8; it was read as Western European text (cp1252).",)


def test_headers(tmp_path):
    assert columns(write(tmp_path, "1,2\n3,4\n")) == {"1": [1.0, 3.0], "2": [2.0, 4.0]}
    assert read_table(tmp_path / "t.csv").nameless
    assert columns(write(tmp_path, "# made on Monday\na,b\n1,2\n")) == {"a": [1.0], "b": [2.0]}
    assert columns(write(tmp_path, "# a,b\n1,2\n")) == {"a": [1.0], "b": [2.0]}
    assert list(columns(write(tmp_path, ",b,\n1,2,3\n"))) == ["", "b", "column 3"]


def test_blank_lines_are_no_rows_and_empty_rows_are(tmp_path):
    assert read_table(write(tmp_path, "a,b\n1,2\n\n3,4\n\n\n")).rows == 2
    assert read_table(write(tmp_path, "a,b\n1,2\n,\n3,4\n")).rows == 3


def test_a_cell_of_any_length(tmp_path):
    long = "z" * 200_000
    assert columns(write(tmp_path, f"a,b\n{long},1\nu,2\n"))["a"] == [long, "u"]
    assert columns(write(tmp_path, f"a,b\n{long},\nu,2\n"))["a"] == [long, "u"]


FRAME = pd.DataFrame(
    {
        "number": [1.5, np.nan, -0.1 - 0.2, 1e-7, 12345678.875],
        "whole": [3, 1, 2, 5, 4],
        "word": ["u", None, "two\nlines", "v, w", "ü"],
        "truth": [True, False, True, True, False],
        "when": pd.to_datetime(
            ["2020-03-01", "2020-02-28 12:30", None, "1999-12-31", "2024-01-01"], format="ISO8601"
        ),
        "digits": ["1", "2", None, "4", "5"],
    }
)


def in_polars(frame: pd.DataFrame) -> pl.DataFrame:
    columns = {name: [None if pd.isna(v) else v for v in frame[name].tolist()] for name in frame}
    return pl.DataFrame(columns)


def _save(frame: pd.DataFrame, path) -> None:
    match path.name.split(".", 1)[1]:
        case "csv":
            frame.to_csv(path, index=False)
        case "csv.gz":
            path.write_bytes(gzip.compress(frame.to_csv(index=False).encode()))
        case "tsv":
            frame.to_csv(path, sep="\t", index=False)
        case "txt":
            frame.to_csv(path, sep=";", decimal=",", index=False)
        case "parquet":
            in_polars(frame).write_parquet(path)
        case "xlsx":
            # The writer keeps 16 digits of a number.
            in_polars(frame.assign(number=frame["number"].round(12))).write_excel(path)


@pytest.mark.parametrize(
    "kind", ["csv", "csv.gz", "tsv", "txt", "parquet", "xlsx", "pandas", "polars", "lazy"]
)
def test_the_same_table_in_every_format(tmp_path, kind):
    if kind in ("pandas", "polars", "lazy"):
        frame = FRAME if kind == "pandas" else in_polars(FRAME)
        table = read_table(frame.lazy() if kind == "lazy" else frame)
    else:
        _save(FRAME, tmp_path / f"t.{kind}")
        table = read_table(tmp_path / f"t.{kind}")
        assert table.name == "t"
    number = FRAME["number"].round(12) if kind == "xlsx" else FRAME["number"]
    np.testing.assert_array_equal(table.columns["number"], number)
    np.testing.assert_array_equal(table.columns["whole"], FRAME["whole"].astype(float))
    assert table.columns["word"].tolist() == ["u", "", "two\nlines", "v, w", "ü"]
    assert table.columns["truth"].tolist() == ["true", "false", "true", "true", "false"]
    np.testing.assert_array_equal(table.columns["when"], FRAME["when"].to_numpy().astype("datetime64[us]"))
    np.testing.assert_array_equal(table.columns["digits"], [1, 2, np.nan, 4, 5])


def test_arrays(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.arange(6).reshape(3, 2), y=[1, 0, 1], word=["u", "NA", "w"])
    table = read_table(tmp_path / "t.npz")
    assert list(table.columns) == ["x0", "x1", "y", "word"]
    assert table.target == "y"
    assert table.columns["x1"].tolist() == [1.0, 3.0, 5.0]
    assert table.columns["word"].tolist() == ["u", "", "w"]
    np.save(tmp_path / "t.npy", np.arange(6, dtype=np.float32).reshape(3, 2))
    table = read_table(tmp_path / "t.npy")
    assert {name: (c.tolist(), c.dtype) for name, c in table.columns.items()} == {
        "1": ([0.0, 2.0, 4.0], np.float32), "2": ([1.0, 3.0, 5.0], np.float32)
    }  # fmt: skip


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_data(name):
    table = read_table(name)
    assert table.target == "target"
    assert len({len(column) for column in table.columns.values()}) == 1


BROKEN = {
    "none.csv": (None, "none.csv does not exist"),
    "t.doc": (b"", r"neither a data set \(breast_cancer, diabetes, .*\) nor a .csv, .tsv"),
    "empty.csv": (b"", "empty.csv is empty"),
    "blank.csv": (b"\n \n", "blank.csv is empty"),
    "header.csv": (b"a,b\n", "header.csv holds no rows of data"),
    "short.csv": (b"a,b\n1,2\n3\n", r"row 2 of .*short.csv has one cell; its header has 2"),
    "long.csv": (b"a,b\n1,2\n3,4,5\n", r"row 2 of .*long.csv has 3 cells; its header has 2"),
    "plain.csv": (b"1,2\n3,4,5\n", r"row 2 of .*plain.csv has 3 cells; its first row has 2"),
    "twice.csv": (b"a,a\n1,2\n", "two columns named 'a'"),
    "quote.csv": (b'a,b\n"1,2\n3,4\n', "quote.csv is not a table of text: unexpected end"),
    "zero.csv": (b"a,b\n\x00,2\n", "zero.csv is not a text file: it holds zero bytes"),
    "broken.csv.gz": (
        gzip.compress(b"a,b\n1,2\n" * 99)[:-20],
        "broken.csv.gz is a gzip file that breaks off",
    ),
    "bad.npz": (b"hello", "bad.npz is not an .npz file of plain arrays, or it is damaged"),
    "bad.npy": (b"hello", "bad.npy is not a .npy file of a plain array, or it is damaged"),
    "bad.parquet": (b"hello", "bad.parquet is not a Parquet file, or it is damaged"),
    "bad.xlsx": (b"hello", "bad.xlsx is not an XLSX file, or it is damaged"),
    "bad.parquet.gz": (b"hello", "neither a data set"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_files_that_are_no_tables(tmp_path, name):
    content, sentence = BROKEN[name]
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        read_table(tmp_path / name)


@pytest.mark.parametrize("damage", ["cut short", "flipped"])
def test_damaged_archives(tmp_path, damage, rng):
    np.savez_compressed(tmp_path / "t.npz", x=rng.normal(size=(50, 3)), y=rng.normal(size=50))
    raw = bytearray((tmp_path / "t.npz").read_bytes())
    sentences = set()
    for place in range(40, len(raw), 97):
        changed = (
            raw[:place]
            if damage == "cut short"
            else raw[:place] + bytes([raw[place] ^ 255]) + raw[place + 1 :]
        )
        (tmp_path / "t.npz").write_bytes(bytes(changed))
        try:
            read_table(tmp_path / "t.npz")
        except ValueError as error:
            sentences.add(str(error))
    assert sentences == {f"{tmp_path / 't.npz'} is not an .npz file of plain arrays, or it is damaged."}


def test_folders_and_links(tmp_path):
    (tmp_path / "t.csv").mkdir()
    with pytest.raises(ValueError, match=r"t.csv is a directory, not a file"):
        read_table(tmp_path / "t.csv")
    (tmp_path / "link.csv").symlink_to(tmp_path / "nowhere.csv")
    with pytest.raises(ValueError, match=r"link.csv does not exist \(it is a link to nothing\)"):
        read_table(tmp_path / "link.csv")


def test_arrays_that_are_no_table(tmp_path):
    np.savez(tmp_path / "lengths.npz", x=np.zeros((3, 2)), y=np.zeros(2))
    with pytest.raises(ValueError, match="differ in length: x0 3, x1 3, y 2"):
        read_table(tmp_path / "lengths.npz")
    np.savez(tmp_path / "cube.npz", x=np.zeros((3, 2, 2)))
    with pytest.raises(ValueError, match=r"cube.npz holds images of shape \(2, 2\); here columns are needed"):
        read_table(tmp_path / "cube.npz")
    np.save(tmp_path / "flat.npy", np.zeros(3))
    with pytest.raises(ValueError, match=r"flat.npy has shape \(3,\); .* reshape it to \(3, 1\)"):
        read_table(tmp_path / "flat.npy")
    with pytest.raises(ValueError, match="column 'a' of the data frame holds values of type List"):
        read_table(pl.DataFrame({"a": [[1], [2]]}))


def test_large_files_are_read_quickly(tmp_path, rng):
    rows = 100_000
    frame = pl.DataFrame({f"c{i}": rng.normal(size=rows) for i in range(5)} | {"w": ["u", "v"] * (rows // 2)})
    frame.write_csv(tmp_path / "t.csv")
    started = time.process_time()
    assert read_table(tmp_path / "t.csv").rows == rows
    # The csv module and float() take about two seconds for as many cells.
    assert time.process_time() - started < 1.5


def test_nothing_that_reads_tables_is_imported_before_a_table_is_read():
    code = "import finitewidth.tables, sys; print({'polars', 'sklearn', 'narwhals'} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
