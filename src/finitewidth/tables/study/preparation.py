"""From tables to a training set: target, split, inputs, and the scales to come back to."""

import difflib
import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
from jaxtyping import Float, Int, Shaped

from finitewidth.prediction.problem.data import first_duplicate
from finitewidth.tables.columns import LARGEST, SMALLEST, index_column, index_sentence, is_constant
from finitewidth.tables.doubts import doubts
from finitewidth.tables.preparation import ColumnNote, Preparation, Scale
from finitewidth.tables.table import Table, as_words, gaps, is_date, is_number, refuse_infinite

Kind = Literal["auto", "regression", "classification"]

# Whole numbers are taken for classes when they have at most so many values, each in so many rows on average.
_MOST_NUMBERED_CLASSES, _ROWS_OF_A_CLASS = 20, 5
_TARGET_NAMES = frozenset({"y", "target", "label", "class"})
_MOST_NAMES = 12


class Options(NamedTuple):
    """What the user decides about the data; `most_rows` bounds training and test rows together."""

    target: str | None = None
    kind: Kind = "auto"
    scale: Scale = "column"
    train: int | None = None
    seed: int = 0
    most_rows: int | None = None


class Prepared(NamedTuple):
    """A training set and a test set, standardised, with the way back to the units of the table.

    Attributes
    ----------
    x_train, y_train, x_test
        Inputs, (rows, inputs) or images (rows, *positions, channels), and targets; classes are one-hot
        vectors, centred and of variance one for equal classes.
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
    columns
        What was done to each column of the table.
    notes
        Sentences that the user should read.
    """

    name: str
    target: str
    features: tuple[str, ...]
    x_train: Float[np.ndarray, "train ..."]
    y_train: Float[np.ndarray, "train out"]
    x_test: Float[np.ndarray, "test ..."]
    y_test: Float[np.ndarray, "test out"] | None
    rows_test: Int[np.ndarray, " test"]
    columns: tuple[ColumnNote, ...]
    notes: tuple[str, ...]
    center: float = 0.0
    unit: float = 1.0
    classes: tuple[str, ...] = ()
    labels: Int[np.ndarray, " train"] | None = None
    labels_test: Int[np.ndarray, " test"] | None = None


def prepare(table: Table, test: Table | None, options: Options, new: bool = False) -> Prepared:
    """Split (unless there is a test table) and prepare the columns, all by the training rows.

    With `new` the test table holds rows to predict, whatever it says about the target.
    """
    notes: list[str] = list(table.notes)
    target = chosen_target(table, options.target, notes)
    if table.shape or (test is not None and test.shape):
        _check_images(table, test, options.scale)
    refuse_infinite(table)
    if test is not None:
        refuse_infinite(test, target if new else None)
    table = _without_odd_cells(table, target, options.kind)
    if test is not None and not new:
        test = _without_odd_cells(test, target, options.kind)
    notes += table.odd_notes(target)
    index = None if table.shape else index_column(table.without(target))
    if index is not None:
        notes.append(index_sentence(index, table.name))
    rows = np.arange(1, table.rows + 1)
    table, rows = with_target(table, rows, target, notes)
    classes = _is_classes(table.columns[target], options.kind)
    if not table.shape:
        notes += doubts(table.without(index), target, classes)
    if test is None:
        kept, held = _split(table, target, classes, options, notes)
        train, test, rows_test = table.take(kept), table.take(held), rows[held]
        rows = rows[kept]
    else:
        notes += [*test.notes, *test.odd_notes(target)]
        _refuse_other_units(table, test)
        train, rows_test = table, np.arange(1, test.rows + 1)
        if target in test.columns and new:
            notes.append(f"column {target!r} of {test.name} is to be predicted and was not looked at.")
            test = test.without(target)
        elif target in test.columns:
            test, rows_test = with_target(test, rows_test, target, notes)
    _refuse_too_few(train, test)
    if options.most_rows is not None and train.rows + test.rows > options.most_rows:
        raise ValueError(
            f"{train.rows:,} rows to learn from and {test.rows:,} to predict need more memory than this "
            f"machine has: give at most {options.most_rows:,} rows in all."
        )
    preparation = Preparation.fit(train.without(target), options.scale, index)
    x_train, x_test = (
        (x.reshape(len(x), *table.shape) if table.shape else x)
        for x in (preparation.apply(train), preparation.apply(test))
    )
    notes += preparation.about(test.without(target))
    pair = first_duplicate(x_train)
    if pair is not None:
        notes.append(f"training rows {rows[pair[0]]} and {rows[pair[1]]} are equal in all features.")
    outputs = (_labels if classes else _numbers)(train.columns[target], test.columns.get(target), target)
    return Prepared(
        name=table.name,
        target=target,
        features=preparation.names,
        x_train=x_train,
        x_test=x_test,
        rows_test=rows_test,
        columns=preparation.notes,
        notes=tuple(notes),
        **outputs,
    )


def _without_odd_cells(table: Table, target: str, kind: Kind) -> Table:
    """Refuse a few words among the numbers of the target; as classes, numbers are words, too."""
    odd = table.odd.get(target)
    if odd is None or target not in table.columns:
        return table
    if kind == "classification":
        return table._replace(columns=table.columns | {target: odd.words})
    raise ValueError(
        f"target {target!r} of {table.name} holds {odd.sentence}: correct the cell, or empty it to leave the "
        "row out."
    )


def _refuse_other_units(table: Table, test: Table) -> None:
    for name, unit in table.units.items():
        other = test.units.get(name, unit)
        if other != unit:
            raise ValueError(
                f"column {name!r} is in {unit!r} in {table.name} and in {other!r} in {test.name}: give both "
                "in one unit."
            )


def _check_images(table: Table, test: Table | None, scale: Scale) -> None:
    """Refuse images of two shapes, and a scale that would leave out pixels."""
    if test is not None and test.shape != table.shape:
        held = [f"images of shape {part.shape}" if part.shape else "no images" for part in (table, test)]
        raise ValueError(f"{table.name} holds {held[0]} and {test.name} {held[1]}; they must agree.")
    if scale == "column":
        raise ValueError(
            f"--scale column would treat every pixel of {table.name} by itself: images take common or none."
        )


def chosen_target(table: Table, asked: str | None, notes: list[str]) -> str:
    """The column to predict; a word in `notes` where the user did not name it."""
    target = table.target if asked is None else asked
    if table.shape and (target is None or target != table.target):
        raise ValueError(
            f"{table.name} holds images and no labels{f' {asked!r}' if asked else ''} to learn: save them "
            "beside the images, as y, (rows,)."
        )
    if target is None:
        named = [name for name in table.columns if name.strip().lower() in _TARGET_NAMES]
        if len(named) == 1:
            target = named[0]
            notes.append(f"column {target!r} is taken for the target; --target names another.")
        elif table.nameless:
            target = list(table.columns)[-1]
            notes.append(f"{table.name} has no header; its last column is taken for the target.")
        else:
            raise ValueError(
                f"say which column of {table.name} to predict with --target: {listed(table.columns)}."
            )
    if target not in table.columns:
        close = difflib.get_close_matches(target, table.columns, 1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{table.name} has no column {target!r}.{hint} It has {listed(table.columns)}.")
    if len(table.columns) < 2:
        raise ValueError(
            f"{table.name} has one column only, {target!r}: there is nothing to predict it from."
        )
    if is_date(table.columns[target]):
        raise ValueError(f"target {target!r} holds dates: give numbers, such as days, or words.")
    return target


def listed(columns: Iterable[str]) -> str:
    """Names of columns, the first dozen of many."""
    names = list(columns)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(names[:_MOST_NAMES]) + more


def with_target(
    table: Table, rows: Int[np.ndarray, " rows"], target: str, notes: list[str]
) -> tuple[Table, np.ndarray]:
    """The rows whose target is known."""
    missing = gaps(table.columns[target])
    if not missing.any():
        return table, rows
    if missing.all():
        raise ValueError(f"target {target!r} is missing in every row of {table.name}.")
    notes.append(
        f"{missing.sum()} of {table.rows} rows of {table.name} have no {target}, first row "
        f"{rows[np.argmax(missing)]}, and were left out."
    )
    return table.take(~missing), rows[~missing]


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


def _split(
    table: Table, target: str, classes: bool, options: Options, notes: list[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Four fifths for training, classes in proportion where they are large enough.

    Of more rows than fit into memory as many are taken at random as do.
    """
    from sklearn.model_selection import train_test_split

    total = table.rows if options.most_rows is None else min(table.rows, options.most_rows)
    count = (4 * total) // 5 if options.train is None else options.train
    if not 1 <= count < table.rows:
        if table.rows < 2:
            raise ValueError(f"{table.name} has {table.rows} row: there is nothing to split; give more rows.")
        raise ValueError(
            f"--train {count} leaves nothing to train or to test on: {table.name} has {table.rows} rows."
        )
    rest = table.rows - count
    if total < table.rows:
        count = min(count, total - 1)
        rest = total - count
        notes.append(
            f"{table.name} has {table.rows:,} rows and this machine memory for {total:,}: {count:,} to learn "
            f"from and {rest:,} to predict were drawn at random."
        )
    values = table.columns[target]
    sizes = np.unique(values, return_counts=True)[1]
    proportional = classes and sizes.min() > 1 and len(sizes) <= min(count, rest)
    kept, held = train_test_split(
        np.arange(table.rows),
        train_size=count,
        test_size=rest,
        random_state=options.seed,
        stratify=values if proportional else None,
    )
    return np.asarray(kept), np.asarray(held)


def _is_classes(values: Shaped[np.ndarray, " rows"], kind: Kind) -> bool:
    if kind != "auto":
        return kind == "classification"
    if not is_number(values):
        return True
    distinct = np.unique(values[np.isfinite(values)])
    few = len(distinct) <= min(_MOST_NUMBERED_CLASSES, len(values) // _ROWS_OF_A_CLASS)
    return bool(few and (distinct == np.round(distinct)).all())


def _labels(values: np.ndarray, held: np.ndarray | None, target: str) -> dict:
    names, labels = np.unique(_class_names(values), return_inverse=True)
    if held is not None:
        names = np.union1d(names, _class_names(held))
    if len(names) > len(values):
        raise ValueError(
            f"target {target!r} has {len(names)} classes and there are {len(values)} training rows: "
            "some classes have no example; give more rows, or --task regression if it is a quantity."
        )
    unseen = np.setdiff1d(names, _class_names(values))
    if len(unseen):
        raise ValueError(f"class {str(unseen[0])!r} of target {target!r} is in the test rows only.")
    if len(names) < 2:
        raise ValueError(f"target {target!r} is constant, {str(names[0])!r} in every training row.")
    share = 1 / len(names)
    one_hot = (np.eye(len(names)) - share) / math.sqrt(share * (1 - share))
    labels_test = None if held is None else np.searchsorted(names, _class_names(held))
    return {
        "y_train": one_hot[labels],
        "y_test": None if labels_test is None else one_hot[labels_test],
        "classes": tuple(str(name) for name in names),
        "labels": labels,
        "labels_test": labels_test,
    }


def _numbers(values: np.ndarray, held: np.ndarray | None, target: str) -> dict:
    if not is_number(values):
        word = next(value for value in values if value)
        raise ValueError(
            f"target {target!r} holds words, such as {str(word)!r}: --task regression needs numbers."
        )
    size = float(np.abs(values).max())
    if size and not SMALLEST <= size <= LARGEST:
        raise ValueError(
            f"target {target!r} has numbers of size {size:.0e}, whose squares a computer cannot hold: give "
            "it in another unit."
        )
    if is_constant(values):
        raise ValueError(f"target {target!r} is constant, {values[0]:g} in every training row.")
    center, unit = float(values.mean()), float(values.std())
    y_train, y_test = (None if v is None else (v[:, None] - center) / unit for v in (values, held))
    return {"y_train": y_train, "y_test": y_test, "center": center, "unit": unit}


def _class_names(values: np.ndarray) -> np.ndarray:
    """Whole numbers without their decimal point."""
    return as_words(values).astype(str)
