"""How each kind of column enters a network."""

import numpy as np
import pandas as pd
import pytest

from finitewidth.estimators.wide_network import NTKRegressor
from finitewidth.tables.columns import index_column
from finitewidth.tables.inputs import inputs_of
from finitewidth.tables.preparation import Preparation
from finitewidth.tables.table import Table
from tolerances import assert_close


def fitted(**columns) -> tuple[Preparation, np.ndarray]:
    table = Table("t", {name: np.asarray(c) for name, c in columns.items()})
    preparation = Preparation.fit(table)
    return preparation, preparation.apply(table)


def done(preparation: Preparation) -> dict[str, str]:
    return {note.column: note.done for note in preparation.notes}


def test_two_words_are_one_input():
    preparation, x = fitted(married=np.array(["no", "yes", "yes", "no", "yes"], object))
    assert preparation.names == ("married=yes",)
    raw = np.array([0, 1, 1, 0, 1.0])
    assert_close(x[:, 0], (raw - 0.6) / np.sqrt(0.24))
    assert done(preparation) == {"married": "two words, one input: yes or no"}


def test_all_words_together_weigh_as_one_number():
    rng = np.random.default_rng(0)
    words = rng.choice(list("uvwxyz"), 300).astype(object)
    preparation, x = fitted(a=rng.normal(size=300), w=words)
    assert preparation.names == ("a", *(f"w={word}" for word in "uvwxyz"))
    assert_close(x.mean(axis=0), np.zeros(7), scale=1.0)
    assert_close(x[:, 0].var(), 1.0)
    assert_close(x[:, 1:].var(axis=0).sum(), 1.0)
    # Frequent and rare words keep their distance: it is the same for any two of them.
    a, b = (x[words == word][0, 1:] for word in "uv")
    c, d = (x[words == word][0, 1:] for word in "xz")
    assert_close(np.linalg.norm(a - b), np.linalg.norm(c - d))


def test_names_are_left_out_and_rare_words_count_as_one():
    rng = np.random.default_rng(0)
    places = np.array(["A"] * 60 + ["B"] * 36 + ["C", "D", "E", "F"], object)
    preparation, x = fitted(
        name=np.array([f"n{i}" for i in range(100)], object), place=places, a=rng.normal(size=100)
    )
    assert preparation.names == ("place=A", "place=B", "place=other", "a")
    assert done(preparation)["name"] == "100 different words in 100 rows, like names: left out"
    assert done(preparation)["place"] == "2 words (A, B); 4 rare words count as one"
    assert len(np.unique(x[96:, :3], axis=0)) == 1
    unknown = Table("rows", {"place": np.array(["Z"], object), "a": np.zeros(1)})
    assert_close(preparation.apply(unknown)[0, :3], x[99, :3])


def test_gaps_in_words_are_a_word():
    preparation, _ = fitted(w=np.array(["u", "", "v", "", "", "u", "v", "v", "u"], object))
    assert preparation.names == ("w=missing", "w=u", "w=v")


@pytest.mark.parametrize(("missing", "says"), [(2, False), (3, True)])
def test_gaps_in_numbers_get_the_median_and_from_three_on_an_input(missing, says):
    values = np.arange(20.0) ** 2
    values[:missing] = np.nan
    preparation, x = fitted(a=values)
    assert preparation.names == (("a", "a missing") if says else ("a",))
    filled = np.where(np.isnan(values), np.median(values[missing:]), values)
    assert_close(x[:, 0], (filled - filled.mean()) / filled.std())
    if says:
        share = missing / 20
        assert_close(x[:, 1], (np.isnan(values) - share) / np.sqrt(share * (1 - share)))


def test_dates_are_days():
    when = np.array(["2020-01-01", "2020-01-03", "NaT", "2020-03-01T12:00"], "datetime64[us]")
    preparation, x = fitted(when=when, a=np.arange(4.0))
    days = np.array([0, 2, 2, 60.5])
    assert_close(x[:, 0], (days - days.mean()) / days.std(), 1e-9)
    assert done(preparation)["when"] == "date, as days; 1 gap filled with the median 2020-01-03"


@pytest.mark.parametrize(
    ("name", "values", "is_index"),
    [
        ("", [0, 1, 2, 3], True),
        ("", [4, 1, 7, 3], True),
        ("", [0.5, 1, 2, 3], False),
        ("", [1, 1, 2, 3], False),
        ("Unnamed: 0", [1, 2, 3, 4], True),
        ("rownames", [1, 2, 3, 4], True),
        ("rownames", [2, 3, 4, 5], False),
        ("id", [1, 2, 3, 4], True),
        ("id", [1, 3, 2, 4], False),
        ("year", [1, 2, 3, 4], False),
    ],
)
def test_an_index_is_recognised(name, values, is_index):
    table = Table("t", {name: np.array(values, float), "a": np.ones(4)})
    assert index_column(table) == (name if is_index else None)


def test_plain_numbers_enter_as_they_are():
    table = Table("t", {"": np.arange(3.0), "a": np.array([1.0, 5.0, 9.0]), "y": np.zeros(3)})
    found = inputs_of(table, target="y")
    assert found.preparation is None
    assert found.x.tolist() == [[1.0], [5.0], [9.0]]
    assert found.further(Table("rows", {"b": np.ones(2), "a": np.array([7.0, 8.0])})).tolist() == [
        [7.0],
        [8.0],
    ]
    with pytest.raises(ValueError, match="column 'a' of rows holds no finite number in row 2"):
        found.further(Table("rows", {"a": np.array([7.0, np.nan])}))


def test_estimators_prepare_data_frames():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"a": rng.normal(size=30), "w": ["u", "v", "w"] * 10, "b": rng.normal(size=30)})
    frame.loc[[3, 4, 5], "b"] = np.nan
    y = frame["a"] + (frame["w"] == "u")
    model = NTKRegressor(ridge=1e-2).fit(frame, y)
    inputs = Preparation.fit(
        Table(
            "t",
            {n: frame[n].fillna(np.nan).to_numpy() if n != "w" else frame[n].to_numpy(object) for n in frame},
        )
    )
    assert model.preparation_.names == inputs.names == ("a", "w=u", "w=v", "w=w", "b", "b missing")
    shuffled = frame[["w", "b", "a"]].iloc[:5]
    assert_close(model.predict(shuffled), model.predict(frame)[:5])
    with pytest.raises(
        ValueError, match="X must be a data frame with the columns of the training data, a, w, b"
    ):
        model.predict(np.zeros((2, 6)))
    numbers = NTKRegressor(ridge=1e-2).fit(frame[["a"]], y)
    assert numbers.preparation_ is None
    assert_close(
        numbers.predict(frame[["a"]]),
        NTKRegressor(ridge=1e-2).fit(frame[["a"]].to_numpy(), y).predict(frame[["a"]].to_numpy()),
    )


@pytest.mark.parametrize("size", [1e-15, 1e-200, 5e-310, 1e14, 1e200, 1.7e307])
def test_a_column_in_any_unit_is_the_same_input(size):
    """Picofarads and femtoseconds, and what squares cannot hold."""
    values = np.array([1.0, 3.0, -2.0, 7.0, 4.0, np.nan, 5.0, np.nan, np.nan, 10.0])
    (one, x), (other, rescaled) = fitted(a=values), fitted(a=values * size)
    assert one.names == other.names == ("a", "a missing")
    # Five digits are left of the smallest numbers that a computer has.
    assert_close(rescaled, x, 1e-3 if size == 5e-310 else 1e-12)
    new = Table("new", {"a": np.array([2.0, 6.0]) * size})
    assert_close(other.apply(new)[0, 0] - other.apply(new)[1, 0], -4 / np.nanstd(raw_filled(values)), 1e-3)


def raw_filled(values):
    return np.where(np.isnan(values), np.nanmedian(values), values)


@pytest.mark.parametrize("size", [1e-200, 1e-15, 1.0, 1e15, 1e200])
def test_a_column_is_constant_by_its_own_size(size):
    steps = np.arange(12) % 3
    preparation, _ = fitted(a=np.arange(12.0), b=size * (1 + 1e-13 * steps), c=size * (1 + 1e-11 * steps))
    assert preparation.names == ("a", "c")


def test_a_common_scale_refuses_columns_beyond_squares():
    table = Table("t", {"a": np.arange(9.0), "b": 1e-150 * np.arange(9.0)})
    with pytest.raises(ValueError, match=r"column 'b' of t holds numbers of size 1e-149, which only"):
        Preparation.fit(table, "common")


def test_infinite_numbers_are_refused_where_they_are():
    column = np.array([1.0, 2.0, -np.inf, 4.0])
    with pytest.raises(ValueError, match="column 'a' of t holds -inf in row 3: correct the cell, or"):
        fitted(a=column, b=np.arange(4.0))
    preparation, _ = fitted(a=np.arange(4.0))
    with pytest.raises(ValueError, match="column 'a' of new holds -inf in row 3"):
        preparation.apply(Table("new", {"a": column}))
    with pytest.raises(ValueError, match=r"row 2 of new lies more than 1e.100 standard deviations .* in 'a'"):
        preparation.apply(Table("new", {"a": np.array([1.0, 1e200])}))
    with pytest.raises(ValueError, match="column 'a' of t holds -inf in row 3"):
        inputs_of(Table("t", {"a": column}))
