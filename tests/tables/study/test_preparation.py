"""Tables become training sets: scales, classes, splits; nothing is learnt from test rows."""

import numpy as np
import pytest

from finitewidth.tables.study.preparation import Options, prepare
from finitewidth.tables.table import Odd, Table
from tolerances import assert_close


def table(rows: int = 20, **more) -> Table:
    rng = np.random.default_rng(1)
    columns = {"a": rng.normal(3, 2, rows), "b": rng.normal(size=rows), "y": rng.normal(50, 9, rows)}
    return Table("things", columns | more)


TARGET = Options(target="y")


def test_inputs_and_targets_are_standardised_by_the_training_rows():
    data = prepare(table(), None, TARGET)
    assert (len(data.x_train), len(data.x_test)) == (16, 4)
    assert_close(data.x_train.mean(axis=0), np.zeros(2), scale=1.0)
    assert_close(data.x_train.std(axis=0), np.ones(2))
    assert_close(data.y_train.std(), 1.0)
    values = table().columns["y"]
    assert_close(data.center + data.unit * data.y_test[:, 0], values[data.rows_test - 1])
    kept = np.setdiff1d(np.arange(20), data.rows_test - 1)
    assert_close(data.center, values[kept].mean())


def test_a_test_table_changes_neither_scales_nor_training():
    first = prepare(table(), table(5), TARGET)
    shifted = table(5)
    shifted.columns["a"] += 100
    second = prepare(table(), shifted, TARGET)
    assert_close(first.x_train, second.x_train)
    assert_close(second.x_test[:, 0] - first.x_test[:, 0], np.full(5, 100 / table().columns["a"].std()))
    assert len(first.x_train) == 20


def test_a_test_table_needs_no_target():
    unknown = table(5)
    del unknown.columns["y"]
    data = prepare(table(), unknown, TARGET)
    assert data.y_test is None
    assert data.x_test.shape == (5, 2)


def test_words_are_classes_and_keep_their_proportions():
    words = np.array(["cat"] * 12 + ["dog"] * 8)
    data = prepare(table(kind=words), None, Options(target="kind"))
    assert data.classes == ("cat", "dog")
    assert np.bincount(data.labels).tolist() == [10, 6]
    assert_close(data.y_train[data.labels == 1], np.tile([-1.0, 1.0], (6, 1)))
    for seed in range(12):
        again = prepare(table(kind=words), None, Options(target="kind", seed=seed))
        assert np.bincount(again.labels).tolist() == [10, 6], f"seed {seed}"


def test_targets_of_classes_have_mean_zero_and_variance_one_for_equal_classes():
    words = np.array(["u", "v", "w"] * 10)
    data = prepare(table(30, kind=words), None, Options(target="kind", train=24))
    assert np.bincount(data.labels).tolist() == [8, 8, 8]
    assert_close(data.y_train.mean(axis=0), np.zeros(3), scale=1.0)
    assert_close(data.y_train.var(axis=0), np.ones(3))


def test_whole_numbers_are_classes_only_when_they_are_few():
    few, many = np.arange(20.0) % 3, np.arange(30.0)
    assert prepare(table(k=few), None, Options(target="k")).classes == ("0", "1", "2")
    assert prepare(table(30, k=many), None, Options(target="k")).classes == ()
    assert prepare(table(30, k=np.arange(30.0) % 7), None, Options(target="k")).classes == ()
    assert prepare(table(k=few), None, Options(target="k", kind="regression")).classes == ()


def test_words_that_training_does_not_know_are_noted():
    words, other = np.array(["u", "v", "w", "v"] * 5), np.array(["u", "new", "v"])
    data = prepare(table(w=words), table(3, w=other)._replace(name="rows"), Options(target="y"))
    assert data.features == ("a", "b", "w=u", "w=v", "w=w")
    assert data.notes == (
        "column 'w' of rows holds 'new', unknown to training; it counts as none of the known words.",
    )
    known = prepare(table(w=words), table(3, w=words[:3]), Options(target="y"))
    assert known.notes == ()


def test_common_scale_keeps_the_geometry():
    plain = table()
    data = prepare(plain, None, Options(target="y", scale="common"))
    assert_close(data.x_train.var(axis=0).mean(), 1.0)
    ratio = data.x_train.std(axis=0)
    kept = np.setdiff1d(np.arange(20), data.rows_test - 1)
    assert_close(ratio[0] / ratio[1], plain.columns["a"][kept].std() / plain.columns["b"][kept].std())


def test_rows_without_a_target_are_left_out_and_the_rest_keeps_its_numbers():
    broken = table()
    broken.columns["y"][[3, 7]] = np.nan
    data = prepare(broken, None, TARGET)
    assert data.notes == ("2 of 20 rows of things have no y, first row 4, and were left out.",)
    assert len(data.x_train) + len(data.x_test) == 18
    assert not {4, 8} & set(data.rows_test.tolist())


def test_gaps_are_filled_by_the_training_rows_only():
    broken, rows = table(), table(4)._replace(name="rows")
    broken.columns["a"][[3, 7, 9]] = np.nan
    rows.columns["a"][2] = np.nan
    first = prepare(broken, rows, TARGET)
    median = np.median(np.delete(table().columns["a"], [3, 7, 9]))
    assert first.features == ("a", "a missing", "b")
    filled = np.where(np.isfinite(broken.columns["a"]), broken.columns["a"], median)
    assert_close(first.x_train[:, 0], (filled - filled.mean()) / filled.std())
    assert_close(first.x_test[2, 0], (median - filled.mean()) / filled.std())
    rows.columns["a"][3] = 1e6
    second = prepare(broken, rows, TARGET)
    assert_close(first.x_train, second.x_train)
    assert_close(first.x_test[:3], second.x_test[:3])


def test_constant_columns_are_left_out():
    data = prepare(table(c=np.full(20, 7.0)), None, TARGET)
    assert data.features == ("a", "b")
    assert data.columns[2] == ("c", "constant, 7 in every training row, left out", 0)
    common = prepare(table(c=np.full(20, 7.0)), None, Options(target="y", scale="common"))
    assert not common.x_train[:, 2].any()


def test_new_rows_are_prepared_like_training_rows():
    words = np.array(["u", "v", "w", "", "v"] * 4)
    when = np.datetime64("2020-01-01", "us") + np.arange(20).astype("timedelta64[D]")
    whole = table(w=words, when=when)
    whole.columns["a"][[2, 3, 4]] = np.nan
    data = prepare(whole, whole.without("y"), TARGET, new=True)
    assert np.array_equal(data.x_train, data.x_test)
    assert data.y_test is None
    assert data.rows_test.tolist() == list(range(1, 21))
    seen = prepare(whole, whole._replace(name="rows"), TARGET, new=True)
    assert seen.y_test is None
    assert "column 'y' of rows is to be predicted and was not looked at." in seen.notes
    assert prepare(whole, whole, TARGET).y_test is not None


def test_columns_that_new_rows_need_not_have():
    index, names = np.arange(20.0), np.array([f"name {i}" for i in range(20)])
    whole = table(id_of=names, c=np.ones(20))
    whole = whole._replace(columns={"": index} | whole.columns)
    data = prepare(whole, table(3, z=np.ones(3)).without("y")._replace(name="rows"), TARGET, new=True)
    assert data.features == ("a", "b")
    assert data.notes == (
        "the first column of things, which has no name, only numbers the rows and was left out.",
        "column 'z' of rows is not in the training table: not used.",
    )


@pytest.mark.parametrize(
    ("names", "nameless", "target", "sentence"),
    [
        (
            ("a", "Class", "b"),
            False,
            "Class",
            "column 'Class' is taken for the target; --target names another.",
        ),
        (("1", "2", "3"), True, "3", "t has no header; its last column is taken for the target."),
    ],
)
def test_an_obvious_target_is_taken_with_a_word(names, nameless, target, sentence):
    columns = {name: np.arange(20.0) ** (i + 1) for i, name in enumerate(names)}
    data = prepare(Table("t", columns, nameless=nameless), None, Options())
    assert data.target == target
    assert sentence in data.notes


def test_more_rows_than_fit_are_drawn_at_random_with_a_word():
    data = prepare(table(200), None, Options(target="y", most_rows=50))
    assert (len(data.x_train), len(data.x_test)) == (40, 10)
    assert data.notes == (
        "things has 200 rows and this machine memory for 50: 40 to learn from and 10 to predict were drawn "
        "at random.",
    )
    with pytest.raises(
        ValueError, match=r"40 rows to learn from and 20 to predict need more memory .* 50 rows"
    ):
        prepare(table(40), table(20), Options(target="y", most_rows=50))


def test_the_seed_decides_about_the_split():
    rows = [prepare(table(), None, Options(target="y", seed=seed)).rows_test.tolist() for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


WORDS = np.array(["u", "v"] * 10)


@pytest.mark.parametrize(
    ("train", "test", "options", "sentence"),
    [
        (Table("t", {"a": np.ones(9), "b": np.arange(9.0)}), None, {"target": None},
         "say which column of t to predict with --target: a, b"),
        (table(), None, {"target": "Y2"}, r"things has no column 'Y2'\. .*It has a, b, y"),
        (table(when=np.full(20, "2020-01-01", "datetime64[D]")), None, {"target": "when"}, "holds dates"),
        (table(n=np.full(20, np.nan)), None, {"target": "n"}, "'n' is missing in every row"),
        (table(k=np.full(20, "7")), None, {"target": "k"}, "'k' is constant, '7' in every training row"),
        (Table("t", {"c": np.ones(9), "y": np.arange(9) / 2}), None, {}, "every feature of t is constant"),
        (table(z=np.ones(20)), None, {"target": "z"}, "target 'z' is constant"),
        (table(z=np.full(20, 0.3)), None, {"target": "z"}, "target 'z' is constant, 0.3"),
        (table(1), table(4), {}, "there is one training row in things"),
        (table(1), None, {}, "things has 1 row: there is nothing to split"),
        (table(6, k=np.array(list("uvwxyz"))), None, {"target": "k"}, "'k' has 6 classes .* 4 training rows"),
        (table(k=WORDS), table(2, k=np.array(["u", "t"])), {"target": "k"}, "class 't' .* in the test rows"),
        (table(k=WORDS), None, {"target": "k", "kind": "regression"}, "'k' holds words, such as 'u'"),
        (table(w=WORDS), table(), {}, "things has no column 'w', which the training table has"),
        (table(), table(4, b=np.array(["1", "", "u", "2"])), {},
         "column 'b' of things holds 'u' in row 3; in training it holds numbers"),
        (table(), None, {"train": 20}, "--train 20 leaves nothing .*: things has 20 rows"),
        (Table("t", {"y": np.ones(5)}), None, {}, "t has one column only, 'y'"),
    ],
)  # fmt: skip
def test_one_sentence_for_every_table_that_cannot_be_learnt(train, test, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(train, test, Options(**{"target": "y"} | options))


def test_equal_training_rows_are_named():
    twice = table()
    for name in ("a", "b"):
        twice.columns[name][11] = twice.columns[name][4]
    data = prepare(twice, table(4), TARGET)
    assert data.notes == ("training rows 5 and 12 are equal in all features.",)


@pytest.mark.parametrize("size", [1e-15, 1e-90, 1e90])
def test_a_target_in_any_unit_is_the_same_target(size):
    plain = prepare(table(), None, TARGET)
    tiny = prepare(table(y=table().columns["y"] * size), None, TARGET)
    assert_close(tiny.y_train, plain.y_train, 1e-9)
    assert_close(tiny.unit / size, plain.unit, 1e-9)


def odd_table(rows: int = 20) -> Table:
    words = np.array([f"{value:g}" for value in np.arange(rows) % 3], object)
    words[4] = "oops"
    values = np.where(words == "oops", np.nan, np.arange(rows) % 3)
    return table(rows, a=values)._replace(odd={"a": Odd("oops", 5, 1, "numbers", words)})


def test_odd_cells_of_inputs_are_told_and_those_of_targets_refused():
    odd = odd_table()
    assert "column 'a' of things holds 'oops' in row 5 among numbers: it counts as missing." in (
        prepare(odd, None, TARGET).notes
    )
    new = prepare(table(), odd._replace(name="new"), TARGET)
    assert "column 'a' of new holds 'oops' in row 5 among numbers: it counts as missing." in new.notes
    classes = prepare(odd, odd_table(), Options(target="a", kind="classification"))
    assert classes.classes == ("0", "1", "2", "oops")
    assert not prepare(table(), odd, Options(target="a"), new=True).notes[:-1]


def test_doubts_are_among_the_notes():
    data = prepare(table(copy=table().columns["a"]), None, TARGET)
    assert data.notes == ("column 'copy' is a copy of 'a': what it says counts twice.",)


@pytest.mark.parametrize(
    ("train", "test", "target", "sentence"),
    [
        (odd_table(), None, "a", "target 'a' of things holds 'oops' in row 5 among numbers: correct"),
        (table(), odd_table(), "a", "target 'a' of things holds 'oops' in row 5"),
        (table(y=np.full(20, np.inf)), None, "y", "column 'y' of things holds inf in row 1: correct the"),
        (table(y=1e200 * np.arange(20.0)), None, "y", "target 'y' has numbers of size 2e.201, whose squares"),
        (table(y=1e-200 * np.arange(20.0)), None, "y", "target 'y' has numbers of size 2e-199, whose"),
        (table()._replace(units={"a": "kg"}), table()._replace(units={"a": "g"}), "y",
         "column 'a' is in 'kg' in things and in 'g' in things: give both in one unit"),
    ],
)  # fmt: skip
def test_odd_targets_infinite_numbers_and_two_units_are_refused(train, test, target, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(train, test, Options(target=target))


@pytest.mark.parametrize("size", [1.7e308, 5e-324])
def test_inputs_at_the_ends_of_what_numbers_can_be(size):
    signs = np.where(np.arange(20) % 3 == 0, -1.0, 1.0)
    plain, extreme = (
        prepare(table(c=signs * factor), table(c=signs * factor), TARGET) for factor in (1, size)
    )
    assert extreme.features == ("a", "b", "c")
    assert_close(extreme.x_train, plain.x_train)
    assert_close(extreme.x_test, plain.x_test)
