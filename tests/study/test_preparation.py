"""Tables become training sets: scales, classes, splits; nothing is learnt from test rows."""

import numpy as np
import pytest

from finitewidth.study.preparation import Options, prepare
from finitewidth.study.tables import Table
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


def test_one_hot_inputs():
    words = np.array(["u", "v", "w", "v"] * 5)
    data = prepare(table(w=words), None, Options(target="y", one_hot=True))
    assert data.features == ("a", "b", "w=u", "w=v", "w=w")
    assert len(np.unique(data.x_train[:, 3])) == 2


def test_words_that_training_does_not_know_are_noted():
    words, other = np.array(["u", "v"] * 10), np.array(["u", "new", "v"])
    data = prepare(table(w=words), table(3, w=other), Options(target="y", one_hot=True))
    assert data.notes == ("column 'w' holds 'new' in test rows only; it counts as none.",)
    known = prepare(table(w=words), table(3, w=words[:3]), Options(target="y", one_hot=True))
    assert known.notes == ()


def test_common_scale_keeps_the_geometry():
    plain = table()
    data = prepare(plain, None, Options(target="y", scale="common"))
    assert_close(data.x_train.var(axis=0).mean(), 1.0)
    ratio = data.x_train.std(axis=0)
    kept = np.setdiff1d(np.arange(20), data.rows_test - 1)
    assert_close(ratio[0] / ratio[1], plain.columns["a"][kept].std() / plain.columns["b"][kept].std())


def test_incomplete_rows_are_dropped_when_asked_and_the_rest_keeps_its_numbers():
    broken = table()
    broken.columns["a"][[3, 7]] = np.nan
    data = prepare(broken, None, Options(target="y", drop_missing=True))
    assert data.notes == ("2 of 20 rows of things have missing or infinite values and were left out.",)
    assert len(data.x_train) + len(data.x_test) == 18
    assert not {4, 8} & set(data.rows_test.tolist())


def test_constant_columns_are_dropped_when_asked():
    data = prepare(table(c=np.full(20, 7.0)), None, Options(target="y", drop_constant=True))
    assert data.features == ("a", "b")
    assert "column 'c' is constant, 7 in every training row, and was left out." in data.notes
    common = prepare(table(c=np.full(20, 7.0)), None, Options(target="y", scale="common"))
    assert not common.x_train[:, 2].any()


def test_the_seed_decides_about_the_split():
    rows = [prepare(table(), None, Options(target="y", seed=seed)).rows_test.tolist() for seed in (0, 0, 1)]
    assert rows[0] == rows[1] != rows[2]


WORDS = np.array(["u", "v"] * 10)


@pytest.mark.parametrize(
    ("train", "test", "options", "sentence"),
    [
        (table(), None, {"target": None}, "say which column of things to predict with --target: a, b, y"),
        (table(), None, {"target": "Y2"}, r"things has no column 'Y2'\. .*It has a, b, y"),
        (table(w=WORDS), None, {}, "column 'w' is not numeric; .* 2 different words, .* 'u': .*--one-hot"),
        (table(c=np.ones(20)), None, {}, "column 'c' is constant, 1 in every .*--drop-constant"),
        (Table("t", {"c": np.ones(9), "y": np.arange(9) / 2}), None, {}, "every feature of t is constant"),
        (table(z=np.ones(20)), None, {"target": "z"}, "target 'z' is constant"),
        (table(z=np.full(20, 0.3)), None, {"target": "z"}, "target 'z' is constant, 0.3"),
        (table(1), table(4), {}, "there is one training row in things"),
        (table(1), None, {}, "things has 1 row: there is nothing to split"),
        (table(6, k=np.array(list("uvwxyz"))), None, {"target": "k"}, "'k' has 6 classes .* 4 training rows"),
        (table(k=WORDS), table(2, k=np.array(["u", "t"])), {"target": "k"}, "class 't' .* in the test rows"),
        (table(k=WORDS), None, {"target": "k", "kind": "regression"}, "'k' holds words, such as 'u'"),
        (table(w=WORDS), table(), {"one_hot": True}, "the test table things has no column 'w'"),
        (table(), table(4, b=WORDS[:4]), {}, "column 'b' holds words in things and numbers in training"),
        (table(), None, {"train": 20}, "--train 20 leaves nothing .*: things has 20 rows"),
        (Table("t", {"y": np.ones(5)}), None, {}, "t has one column only, 'y'"),
    ],
)  # fmt: skip
def test_one_sentence_for_every_table_that_cannot_be_learnt(train, test, options, sentence):
    with pytest.raises(ValueError, match=sentence):
        prepare(train, test, Options(**{"target": "y"} | options))


def test_missing_values_are_counted_and_the_first_is_named():
    broken = table()
    broken.columns["b"][[5, 9]] = np.inf, np.nan
    with pytest.raises(
        ValueError, match=r"2 of 20 rows of things have missing .* first row 6: add --drop-missing"
    ):
        prepare(broken, None, TARGET)


def test_equal_training_rows_are_named():
    twice = table()
    for name in ("a", "b"):
        twice.columns[name][11] = twice.columns[name][4]
    data = prepare(twice, table(4), TARGET)
    assert data.notes == ("training rows 5 and 12 are equal in all features.",)
