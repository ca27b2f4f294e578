"""Tables of data: named columns of numbers or words, from files and from scikit-learn."""

import csv
import importlib.util
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Shaped
from sklearn import datasets

Column = Shaped[np.ndarray, " rows"]

BUILT_IN = ("breast_cancer", "diabetes", "digits", "iris", "wine")
# Columns of these are of one kind and one unit, such as pixels.
COMMON_SCALE = ("digits",)
_MISSING = frozenset({"", "na", "n/a", "nan", "null"})


class Table(NamedTuple):
    """Columns of equal length: float arrays with NaN, or arrays of words with "", where a value is missing.

    `target` is the column that the source itself marks as the one to predict, if it does.
    """

    name: str
    columns: dict[str, Column]
    target: str | None = None

    @property
    def rows(self) -> int:
        """Number of rows."""
        return len(next(iter(self.columns.values())))

    def take(self, rows: np.ndarray) -> "Table":
        """The same columns with some of the rows."""
        return self._replace(columns={name: column[rows] for name, column in self.columns.items()})

    def missing(self) -> Shaped[np.ndarray, " rows"]:
        """Whether anything is missing, row by row."""
        gaps = [~np.isfinite(c) if c.dtype.kind == "f" else c == "" for c in self.columns.values()]
        return np.any(gaps, axis=0)


def read_table(source: str) -> Table:
    """A table from the name of a built-in data set or of a .csv, .parquet or .npz file."""
    if source in BUILT_IN:
        return _built_in(source)
    path = Path(source)
    readers: dict[str, Callable[[Path], dict[str, np.ndarray]]] = {
        ".csv": _read_csv,
        ".parquet": _read_parquet,
        ".npz": _read_npz,
    }
    if path.suffix.lower() not in readers:
        raise ValueError(
            f"{source!r} is neither a data set ({', '.join(BUILT_IN)}) nor a .csv, .parquet or .npz file."
        )
    if not path.is_file():
        raise ValueError(f"{source} does not exist." if not path.exists() else f"{source} is not a file.")
    columns = readers[path.suffix.lower()](path)
    lengths = {name: len(column) for name, column in columns.items()}
    if not columns or max(lengths.values()) == 0:
        raise ValueError(f"{source} holds no rows of data.")
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name} {length}" for name, length in lengths.items())
        raise ValueError(f"the columns of {source} differ in length: {listed}.")
    target = "y" if path.suffix.lower() == ".npz" and "y" in columns else None
    return Table(path.stem, columns, target)


def _built_in(name: str) -> Table:
    raw = {"scaled": False} if name == "diabetes" else {}
    bunch = getattr(datasets, f"load_{name}")(**raw)
    columns = {str(f): np.asarray(c, float) for f, c in zip(bunch.feature_names, bunch.data.T, strict=True)}
    if name == "diabetes":
        target = np.asarray(bunch.target, float)
    else:
        target = np.asarray([str(bunch.target_names[i]) for i in bunch.target])
    return Table(name, {**columns, "target": target}, "target")


def _read_csv(path: Path) -> dict[str, np.ndarray]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"{path} is not a text file in UTF-8.") from None
    first = text.split("\n", 1)[0]
    delimiter = max(",;\t", key=first.count)
    rows = [row for row in csv.reader(text.splitlines(), delimiter=delimiter) if row]
    if not rows:
        raise ValueError(f"{path} is empty.")
    header = [cell.strip() for cell in rows[0]]
    if all(_is_number(cell) for cell in header):
        header = [str(i + 1) for i in range(len(header))]
    else:
        rows = rows[1:]
    repeated = [name for name in header if header.count(name) > 1]
    if repeated:
        raise ValueError(f"{path} has two columns named {repeated[0]!r}.")
    for number, row in enumerate(rows, start=1):
        if len(row) != len(header):
            raise ValueError(f"row {number} of {path} has {len(row)} cells; its header has {len(header)}.")
    return {name: _column([row[i] for row in rows]) for i, name in enumerate(header)}


def _column(cells: list[str]) -> Column:
    """Numbers where every cell that is not missing is one, words otherwise."""
    cells = ["" if cell.strip().lower() in _MISSING else cell.strip() for cell in cells]
    if all(cell == "" or _is_number(cell) for cell in cells):
        return np.array([float(cell) if cell else np.nan for cell in cells])
    return np.array(cells)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _read_parquet(path: Path) -> dict[str, np.ndarray]:
    if importlib.util.find_spec("pyarrow") is None:
        raise ValueError(f"{path} needs pyarrow: install the extra, pip install 'finitewidth[parquet]'.")
    import pyarrow
    from pyarrow import parquet

    try:
        table = parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise ValueError(f"{path} is not a Parquet file that pyarrow can read.") from error
    return {name: _plain(table[name].to_pylist()) for name in table.column_names}


def _plain(values: list) -> Column:
    """Numbers or words from Python values; None is missing."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {bool, int, float}:
        return np.array([np.nan if value is None else float(value) for value in values])
    return np.array(["" if value is None else str(value) for value in values])


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    """One-dimensional arrays are columns, those with two axes give one column for each of theirs."""
    try:
        with np.load(path, allow_pickle=False) as stored:
            arrays = {name: stored[name] for name in stored.files}
    except (ValueError, OSError, EOFError, AttributeError):
        raise ValueError(f"{path} is not an .npz file of plain arrays.") from None
    columns = {}
    for name, array in arrays.items():
        if array.ndim not in (1, 2) or array.dtype.kind not in "biufUS":
            raise ValueError(
                f"the array {name!r} of {path} has shape {array.shape} and type {array.dtype}; "
                "columns are numbers or words, (rows,) or (rows, columns)."
            )
        values = array.astype(float if array.dtype.kind in "biuf" else str)
        parts = {name: values} if array.ndim == 1 else {f"{name}{i}": c for i, c in enumerate(values.T)}
        columns |= parts
    return columns
