"""From tables to a training set: split, features, targets, and the scales to come back to."""

import math
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped
from sklearn.model_selection import train_test_split

from finitewidth.prediction.data import first_duplicate
from finitewidth.study.features import Features, chosen_target, complete
from finitewidth.study.tables import Table

Kind = Literal["auto", "regression", "classification"]

# Whole numbers with at most so many different values are taken for classes.
_MOST_NUMBERED_CLASSES = 20


class Options(NamedTuple):
    """What the user decides about the data."""

    target: str | None = None
    kind: Kind = "auto"
    scale: Literal["column", "common", "none"] = "column"
    one_hot: bool = False
    drop_missing: bool = False
    drop_constant: bool = False
    train: int | None = None
    seed: int = 0


class Prepared(NamedTuple):
    """A training set and a test set, standardised, with the way back to the units of the table.

    Attributes
    ----------
    x_train, y_train, x_test
        Inputs and targets; classes are one-hot vectors, centred and of variance one for equal classes.
    y_test
        None when the test table has no target column.
    center, unit
        A target in its own units is center + unit * y (regression).
    classes
        Their names, in the order of the outputs; empty for regression.
    labels, labels_test
        Class of every row, by number; None for regression.
    rows_test
        Row numbers of the test points in their table, from 1.
    notes
        Sentences that the user should read.
    """

    name: str
    target: str
    features: tuple[str, ...]
    x_train: Float[np.ndarray, "train d"]
    y_train: Float[np.ndarray, "train out"]
    x_test: Float[np.ndarray, "test d"]
    y_test: Float[np.ndarray, "test out"] | None
    center: float
    unit: float
    classes: tuple[str, ...]
    labels: Int[np.ndarray, " train"] | None
    labels_test: Int[np.ndarray, " test"] | None
    rows_test: Int[np.ndarray, " test"]
    notes: tuple[str, ...]


def prepare(table: Table, test: Table | None, options: Options) -> Prepared:
    """Split (unless there is a test table), choose features and standardise, all by the training rows."""
    target = chosen_target(table, options.target)
    notes: list[str] = []
    rows = np.arange(1, table.rows + 1)
    table, rows = complete(table, rows, options.drop_missing, notes)
    if test is None:
        kept, held = _split(table, target, options)
        train, test, rows_test = table.take(kept), table.take(held), rows[held]
        rows = rows[kept]
    else:
        names = [name for name in table.columns if name != target]
        missing = [name for name in names if name not in test.columns]
        if missing:
            raise ValueError(f"the test table {test.name} has no column {missing[0]!r}.")
        test = test._replace(columns={n: c for n, c in test.columns.items() if n in table.columns})
        train = table
        test, rows_test = complete(test, np.arange(1, test.rows + 1), options.drop_missing, notes)
    _refuse_too_few(train, test)
    features = Features.of(train, target, options.scale, options.one_hot, options.drop_constant, notes)
    x_train, x_test = features.apply(train), features.apply(test)
    unseen = features.unseen(test)
    if unseen:
        notes.append(unseen)
    pair = first_duplicate(x_train)
    if pair is not None:
        notes.append(f"training rows {rows[pair[0]]} and {rows[pair[1]]} are equal in all features.")
    outputs = _outputs(train, test, target, options.kind)
    return Prepared(
        name=table.name,
        target=target,
        features=features.names,
        x_train=x_train,
        x_test=x_test,
        rows_test=rows_test,
        notes=tuple(notes),
        **outputs,
    )


def _refuse_too_few(train: Table, test: Table) -> None:
    if train.rows < 2:
        raise ValueError(
            f"there is one training row in {train.name}: inputs cannot be standardised and nothing can be "
            "learnt from it; give two or more."
            if train.rows
            else f"no training row is left in {train.name}."
        )
    if test.rows < 1:
        raise ValueError(f"no test row is left in {test.name}.")


def _split(table: Table, target: str, options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Four fifths for training, classes in proportion where they are large enough."""
    count = (4 * table.rows) // 5 if options.train is None else options.train
    if not 1 <= count < table.rows:
        if table.rows < 2:
            raise ValueError(f"{table.name} has {table.rows} row: there is nothing to split; give more rows.")
        raise ValueError(
            f"--train {count} leaves nothing to train or to test on: {table.name} has {table.rows} rows."
        )
    values = table.columns[target]
    sizes = np.unique(values, return_counts=True)[1]
    proportional = (
        _is_classes(values, options.kind) and sizes.min() > 1 and len(sizes) <= min(count, table.rows - count)
    )
    kept, held = train_test_split(
        np.arange(table.rows),
        train_size=count,
        random_state=options.seed,
        stratify=values if proportional else None,
    )
    return np.asarray(kept), np.asarray(held)


def _is_classes(values: Shaped[np.ndarray, " rows"], kind: Kind) -> bool:
    if kind != "auto":
        return kind == "classification"
    if values.dtype.kind != "f":
        return True
    distinct = np.unique(values[np.isfinite(values)])
    return bool(len(distinct) <= _MOST_NUMBERED_CLASSES and (distinct == np.round(distinct)).all())


def _outputs(train: Table, test: Table, target: str, kind: Kind) -> dict:
    values, held = train.columns[target], test.columns.get(target)
    if not _is_classes(values, kind):
        return _numbers(values, held, target)
    names, labels = np.unique(_words(values), return_inverse=True)
    if held is not None:
        names = np.union1d(names, _words(held))
    if len(names) > len(values):
        raise ValueError(
            f"target {target!r} has {len(names)} classes and there are {len(values)} training rows: "
            "some classes have no example; give more rows, or --task regression if it is a quantity."
        )
    unseen = np.setdiff1d(names, _words(values))
    if len(unseen):
        raise ValueError(f"class {str(unseen[0])!r} of target {target!r} is in the test rows only.")
    if len(names) < 2:
        raise ValueError(f"target {target!r} is constant, {names[0]!r} in every training row.")
    share = 1 / len(names)
    one_hot = (np.eye(len(names)) - share) / math.sqrt(share * (1 - share))
    labels_test = None if held is None else np.searchsorted(names, _words(held))
    return {
        "y_train": one_hot[labels],
        "y_test": None if labels_test is None else one_hot[labels_test],
        "center": 0.0,
        "unit": 1.0,
        "classes": tuple(str(name) for name in names),
        "labels": labels,
        "labels_test": labels_test,
    }


def _numbers(values: np.ndarray, held: np.ndarray | None, target: str) -> dict:
    if values.dtype.kind != "f":
        word = next(value for value in values if value)
        raise ValueError(
            f"target {target!r} holds words, such as {str(word)!r}: --task regression needs numbers."
        )
    center, unit = float(values.mean()), float(values.std())
    if unit <= 1e-12 * max(1.0, math.fabs(center)):
        raise ValueError(f"target {target!r} is constant, {center:g} in every training row.")
    scaled = [None if v is None else (v[:, None] - center) / unit for v in (values, held)]
    return {
        "y_train": scaled[0],
        "y_test": scaled[1],
        "center": center,
        "unit": unit,
        "classes": (),
        "labels": None,
        "labels_test": None,
    }


def _words(values: np.ndarray) -> np.ndarray:
    """Class names; whole numbers without their decimal point."""
    if values.dtype.kind != "f":
        return values
    return np.array([f"{value:g}" for value in values])
