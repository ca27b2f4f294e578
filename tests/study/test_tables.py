"""Tables from files: what is read, and one sentence for what cannot be."""

import sys

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from finitewidth.study.tables import BUILT_IN, read_table


def test_csv_of_numbers_words_and_gaps(tmp_path):
    path = tmp_path / "cars.csv"
    path.write_text('weight,maker,"price, net"\n1.5,Ford,10\n,Opel,NaN\n2e0,"",30\n')
    table = read_table(str(path))
    assert table.name == "cars"
    assert table.rows == 3
    np.testing.assert_array_equal(table.columns["weight"], [1.5, np.nan, 2.0])
    assert table.columns["maker"].tolist() == ["Ford", "Opel", ""]
    np.testing.assert_array_equal(table.columns["price, net"], [10, np.nan, 30])
    assert table.missing().tolist() == [False, True, True]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_other_delimiters(tmp_path, delimiter):
    path = tmp_path / "table.csv"
    path.write_text(f"a{delimiter}b\n1{delimiter}2\n")
    assert {name: c.tolist() for name, c in read_table(str(path)).columns.items()} == {"a": [1.0], "b": [2.0]}


def test_csv_without_header_numbers_its_columns(tmp_path):
    (tmp_path / "plain.csv").write_text("1,2\n3,4\n")
    columns = read_table(str(tmp_path / "plain.csv")).columns
    assert {name: c.tolist() for name, c in columns.items()} == {"1": [1.0, 3.0], "2": [2.0, 4.0]}


def test_parquet_holds_what_was_written(tmp_path):
    table = pyarrow.table({"a": [1, 2, None], "flag": [True, False, True], "word": ["x", None, "y"]})
    parquet.write_table(table, tmp_path / "t.parquet")
    columns = read_table(str(tmp_path / "t.parquet")).columns
    np.testing.assert_array_equal(columns["a"], [1.0, 2.0, np.nan])
    assert columns["flag"].tolist() == [1.0, 0.0, 1.0]
    assert columns["word"].tolist() == ["x", "", "y"]


def test_parquet_without_pyarrow_names_the_extra(tmp_path, monkeypatch):
    (tmp_path / "t.parquet").write_bytes(b"PAR1")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(
        ValueError, match=r"needs pyarrow: install the extra, pip install 'finitewidth\[parquet\]'"
    ):
        read_table(str(tmp_path / "t.parquet"))
    assert "pyarrow" in sys.modules


def test_npz_matrix_and_target(tmp_path):
    np.savez(tmp_path / "t.npz", x=np.arange(6).reshape(3, 2), y=[1, 0, 1])
    table = read_table(str(tmp_path / "t.npz"))
    assert list(table.columns) == ["x0", "x1", "y"]
    assert table.target == "y"
    assert table.columns["x1"].tolist() == [1.0, 3.0, 5.0]


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_data(name):
    table = read_table(name)
    assert table.target == "target"
    assert not table.missing().any()
    assert len({len(column) for column in table.columns.values()}) == 1


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("none.csv", None, "none.csv does not exist"),
        ("t.xlsx", "", r"neither a data set \(breast_cancer, diabetes, .*\) nor a .csv, .parquet or .npz"),
        ("empty.csv", "", "is empty"),
        ("header.csv", "a,b\n", "holds no rows"),
        ("ragged.csv", "a,b\n1,2\n3\n", "row 2 of .* has 1 cells; its header has 2"),
        ("twice.csv", "a,a\n1,2\n", "two columns named 'a'"),
        ("bad.npz", "hello", "not an .npz file of plain arrays"),
        ("bad.parquet", "hello", "not a Parquet file"),
    ],
)
def test_files_that_are_no_tables(tmp_path, name, text, sentence):
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ValueError, match=sentence):
        read_table(str(tmp_path / name))


def test_arrays_that_are_no_table(tmp_path):
    np.savez(tmp_path / "lengths.npz", x=np.zeros((3, 2)), y=np.zeros(2))
    with pytest.raises(ValueError, match="differ in length: x0 3, x1 3, y 2"):
        read_table(str(tmp_path / "lengths.npz"))
    np.savez(tmp_path / "cube.npz", x=np.zeros((3, 2, 2)))
    with pytest.raises(ValueError, match=r"the array 'x' .* has shape \(3, 2, 2\)"):
        read_table(str(tmp_path / "cube.npz"))
    (tmp_path / "latin.csv").write_bytes("a,b\n\xe4,1\n".encode("latin-1"))
    with pytest.raises(ValueError, match="not a text file in UTF-8"):
        read_table(str(tmp_path / "latin.csv"))
