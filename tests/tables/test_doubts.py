"""What a table is doubted for, and what it is not."""

import numpy as np
import pytest

from finitewidth.tables.built_in_tables import BUILT_IN, built_in_table
from finitewidth.tables.doubts import doubts
from finitewidth.tables.table import Table

RNG = np.random.default_rng(5)
A, Y = RNG.normal(size=(2, 40)).round(3)
CLASSES = np.where(Y > 0.1, "yes", "no").astype(object)
WORDS = np.array(["red", "green", "blue", "red"] * 10, object)


def said(target=Y, **columns) -> list[str]:
    classes = np.asarray(target).dtype.kind == "O"
    return doubts(Table("t", {"a": A, **columns, "y": target}), "y", classes)


def with_cells(column, **cells) -> np.ndarray:
    changed = column.copy()
    for place, value in cells.items():
        changed[int(place[1:])] = value
    return changed


def test_nothing_is_said_without_a_reason():
    assert said(w=WORDS, gaps=with_cells(A, r3=np.nan)) == []
    assert said(CLASSES, w=WORDS, whole=np.arange(40.0)) == []
    for name in BUILT_IN:
        table = built_in_table(name)
        kind = table.columns["target"].dtype.kind
        assert [line for line in doubts(table, "target", kind == "O") if "copy" not in line] == []


@pytest.mark.parametrize("value", [-999, -9999, 999, -99])
def test_a_number_that_stands_for_a_missing_value(value):
    found = said(b=with_cells(A, r4=value, r7=value))
    others = np.delete(A, [4, 7])
    assert found == [
        f"column 'b' holds {value} in row 5 and 1 more, far from all others ({others.min():.4g} to "
        f"{others.max():.4g}): if it stands for a missing value, empty the cell."
    ]
    # Among others of its size it is a number like them, the largest or not.
    for size in (abs(value), abs(value) / 3):
        assert said(b=with_cells(size * A, r4=value)) == []


def test_one_number_beside_which_all_others_are_equal():
    assert said(b=with_cells(A, r4=3e300)) == [
        "column 'b' holds 3e+300 in row 5, beside which all others are equal."
    ]
    assert said(b=with_cells(A, r4=1e6)) == []


def test_words_that_differ_in_case_or_spaces():
    found = said(w=with_cells(WORDS, r5="Red", r6="dark  red", r7="dark red"))
    assert found == ["column 'w' holds 'Red' beside 'red': they count as two words."]
    found = said(with_cells(CLASSES, r5="Yes", r6="No"))
    assert len(found) == 1
    assert "column 'y' holds" in found[0]


def test_columns_that_are_copies():
    found = said(b=A.copy(), v=WORDS, w=WORDS.copy(), c=-A, one=np.ones(40), two=np.ones(40))
    assert found == [
        "column 'b' is a copy of 'a': what it says counts twice.",
        "column 'w' is a copy of 'v': what it says counts twice.",
    ]


@pytest.mark.parametrize(
    ("column", "target", "told"),
    [
        (3 - 7e-3 * Y, Y, True),
        (1e200 * Y, Y, True),
        (Y + 1e-3 * A, Y, False),
        (np.exp(Y), CLASSES, True),
        (with_cells(np.exp(Y), r0=np.exp(-Y[0] + 0.2)), CLASSES, False),
        (CLASSES.copy(), CLASSES, True),
        (np.where(CLASSES == "yes", "paid", WORDS).astype(object), CLASSES, True),
        (with_cells(CLASSES, r3="no", r4="no", r5="no"), CLASSES, False),
        (Y, np.where(Y.max() == Y, "rare", "often").astype(object), False),
        (np.array([f"{value}" for value in Y], object), Y, False),
    ],
)
def test_columns_that_tell_the_target(column, target, told):
    sentence = "column 'b' alone tells 'y' without error: is it known beforehand?"
    assert said(target, b=column) == ([sentence] if told else [])


def test_of_many_alike_columns_the_first_are_named():
    found = said(**{f"b{i}": A.copy() for i in range(9)})
    assert len(found) == 4
    assert found[-1] == "the same holds for 6 more columns."
