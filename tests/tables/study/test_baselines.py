"""What other methods reach: scores by their definitions, settings by the training rows."""

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score

from finitewidth.tables.study import baselines as module
from finitewidth.tables.study.baselines import Baseline, baselines
from finitewidth.tables.study.preparation import Options, Prepared, prepare
from finitewidth.tables.table import Table
from tolerances import assert_close


def noisy(rows: int, train: int, classes: bool = False) -> Prepared:
    """A straight line in two of four inputs, and as much noise."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(rows, 4))
    y = x[:, 0] - x[:, 1] + 1.4 * rng.normal(size=rows)
    target = np.where(y > 0, "up", "down").astype(object) if classes else y
    columns = {**{f"x{i}": column for i, column in enumerate(x.T)}, "y": target}
    return prepare(Table("t", columns), None, Options("y", train=train))


@pytest.fixture(scope="module")
def data() -> Prepared:
    return noisy(400, 120)


@pytest.fixture(scope="module")
def networks(data) -> np.ndarray:
    """Ridge regression but for a little."""
    ridge = RidgeCV(np.logspace(-3, 5, 17)).fit(data.x_train, data.y_train[:, 0])
    return 1.01 * ridge.predict(data.x_test)[:, None]


@pytest.fixture(scope="module")
def found(data, networks) -> tuple[Baseline, ...]:
    return baselines(data, networks)


def test_what_is_tuned_beats_the_defaults_on_noisy_rows(data, found, networks):
    names = ["tuned ridge regression", "tuned gradient boosting", "tuned extra trees"]
    assert [other.name for other in found] == names
    default = HistGradientBoostingRegressor(random_state=0).fit(data.x_train, data.y_train[:, 0])
    plain, own = default.score(data.x_test, data.y_test[:, 0]), r2_score(data.y_test, networks)
    assert found[1].score.value > plain + 0.05
    for other in found:
        assert other.score.value > plain
        assert_close(other.ahead.value, own - other.score.value, scale=1.0)
        assert other.rmse == pytest.approx(data.unit * np.sqrt((1 - other.score.value) * data.y_test.var()))


def test_a_difference_on_the_same_rows_is_known_better_than_the_scores(found):
    ridge = found[0]
    assert abs(ridge.ahead.value) < 0.02
    assert ridge.ahead.sem < ridge.score.sem / 10


def test_classes_are_scored_by_the_rows_that_are_right():
    data = noisy(260, 60, classes=True)
    # Networks that are wrong in the first ten rows.
    mean = np.where(np.arange(200)[:, None] < 10, -data.y_test, data.y_test)
    for other in baselines(data, mean):
        share = float(other.score.value)
        assert 200 * share == pytest.approx(round(200 * share))
        assert 0.6 < share < 0.9
        assert other.score.sem == pytest.approx(np.sqrt(share * (1 - share) / 200), rel=0.02)
        assert_close(other.ahead.value, 0.95 - share)
        assert other.rmse is None


@pytest.mark.parametrize(("rows", "train", "classes"), [(6, 2, False), (6, 2, True), (9, 6, True)])
def test_a_few_rows_are_enough(rows, train, classes):
    data = noisy(rows, train, classes)
    for other in baselines(data, data.y_test):
        assert np.isfinite(other.score.value)
        assert other.settings


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_of_many_rows_some_choose_the_settings_and_every_fit_sees_all_classes(monkeypatch):
    monkeypatch.setattr(module, "_ROWS_TO_TUNE_ON", 40)
    labels = np.repeat([0, 1, 2], [60, 59, 1])
    folds = list(task(labels[:119]).folds())
    assert sorted(np.concatenate([judged for _, judged in folds])) == sorted(set(np.concatenate(folds[0])))
    assert [len(fitted) + len(judged) for fitted, judged in folds] == [40] * 5
    monkeypatch.setattr(module, "_ROWS_TO_TUNE_ON", 1_000)
    judged = np.concatenate([judged for _, judged in task(labels).folds()])
    # The fold with the only row of a class is left out.
    assert len(judged) == 96
    assert 119 not in judged
    assert not list(task(np.arange(3)).folds())


def task(labels: np.ndarray) -> module._Task:
    return module._Task(np.zeros((len(labels), 1)), labels, len(np.unique(labels)))
