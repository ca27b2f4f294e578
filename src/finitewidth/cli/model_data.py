"""The rows that a user's own network is looked at with, as the network takes them."""

import math
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from finitewidth.cli.console import note
from finitewidth.tables.columns import index_column
from finitewidth.tables.preparation import Preparation
from finitewidth.tables.reading import read_table
from finitewidth.tables.study.preparation import chosen_target, with_target
from finitewidth.tables.table import Table, as_words, is_number

SCALES = ("none", "column", "common")


class Rows(NamedTuple):
    """Inputs (rows, ...) and labels: whole numbers for classes, with their names, or numbers."""

    name: str
    x: Shaped[np.ndarray, "rows ..."]
    y: Shaped[np.ndarray, "rows ..."]
    classes: tuple[str, ...] = ()


def load_rows(data: str, target: str | None, scale: str, shape: str | None, loss: str | None) -> Rows:
    """Inputs and labels from the arrays x and y of an NPZ file, or from a table."""
    rows = _arrays(Path(data)) if target is None and data.lower().endswith(".npz") else None
    if rows is None:
        rows = _from_table(data, target, scale, loss)
    elif scale != "none":
        rows = rows._replace(x=rows.x / _divisor(scale))
    return rows if shape is None else rows._replace(x=_shaped(rows.x, shape))


def _arrays(path: Path) -> Rows | None:
    """The arrays x and y of a file, whatever their shapes; None when it holds other arrays, or is no file."""
    try:
        with np.load(path, allow_pickle=False) as file:
            if set(file.files) != {"x", "y"}:
                return None
            x, y = file["x"], file["y"]
    except (OSError, ValueError, EOFError):
        # The reader of tables has a sentence for each of these.
        return None
    if len(x) != len(y):
        raise ValueError(f"x of {path} has {len(x)} rows and y has {len(y)}.")
    return Rows(path.stem, x, y)


def _from_table(data: str, target: str | None, scale: str, loss: str | None) -> Rows:
    table = read_table(data)
    notes = list(table.notes)
    label = chosen_target(table, target, notes)
    table, _ = with_target(table, np.arange(1, table.rows + 1), label, notes)
    for remark in notes:
        note(remark)
    features = table.without(label)
    x = _inputs(features, scale)
    y, classes = _labels(table.columns[label], label, loss)
    return Rows(table.name, x, y, classes)


def _inputs(features: Table, scale: str) -> Float[np.ndarray, "rows d"]:
    index = index_column(features)
    if scale in ("column", "common"):
        return Preparation.fit(features, "column" if scale == "column" else "common", index).apply(features)
    return Preparation.fit(features, "none", index).apply(features) / _divisor(scale)


def _divisor(scale: str) -> float:
    try:
        found = 1.0 if scale == "none" else float(scale)
    except ValueError:
        found = math.nan
    if 0 < found < math.inf:
        return found
    raise ValueError(f"--scale must be {', '.join(SCALES)} or a positive number to divide by, got {scale!r}.")


def _labels(values: np.ndarray, target: str, loss: str | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """Classes by their names in order; numbers as they are, unless the loss asks for classes."""
    if is_number(values):
        whole = bool((values == np.round(values)).all())
        if loss == "cross_entropy" and not (whole and values.min() >= 0):
            raise ValueError(f"--loss cross_entropy needs classes, and {target!r} holds other numbers.")
        return (values.astype(np.int64) if whole else values[:, None]), ()
    if loss == "mse":
        raise ValueError(f"--loss mse needs numbers, and {target!r} holds words, such as {str(values[0])!r}.")
    words = as_words(values).astype(str)
    names = sorted(set(words), key=lambda word: (float(word) if word.isdecimal() else math.inf, word))
    place = {name: number for number, name in enumerate(names)}
    return np.array([place[word] for word in words], np.int64), tuple(map(str, names))


def _shaped(x: np.ndarray, shape: str) -> np.ndarray:
    """Every row in the shape that is written as 1x8x8."""
    parts = shape.split("x")
    if not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise ValueError(f"--shape must be sizes such as 1x8x8, got {shape!r}.")
    sizes = tuple(map(int, parts))
    entries = int(np.prod(x.shape[1:]))
    if math.prod(sizes) != entries:
        raise ValueError(f"--shape {shape} has {math.prod(sizes)} entries and a row has {entries} inputs.")
    return x.reshape(len(x), *sizes)
