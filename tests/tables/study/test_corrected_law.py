"""When a study adds the correction in 1/width without being asked, and when training stops by itself."""

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.selection.early_stopping import choose_stop
from finitewidth.tables.study import corrected_law
from finitewidth.tables.study.corrected_law import estimated_seconds
from finitewidth.tables.study.files import predictions, summary
from finitewidth.tables.study.page import report_page
from finitewidth.tables.study.preparation import Options, prepare
from finitewidth.tables.study.study import Choices, run_study
from finitewidth.tables.study.words import describe, training_words
from finitewidth.tables.table import Table
from tolerances import assert_close


def things(train: int):
    """Six rows, so many of them to learn from."""
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(2, 6))
    table = Table("things", {"a": a, "b": b, "y": 70 + 13 * np.sin(a) + b})
    return prepare(table, None, Options("y", train=train))


@pytest.fixture(scope="module")
def few():
    """Few enough rows for dense tensors."""
    return things(train=4)


@pytest.fixture(scope="module")
def corrected(few):
    return run_study(few, Choices((2000,), "tanh", ridge=0.7, order="auto", compare=False))


def test_a_quick_and_small_correction_is_added_with_the_ridge(few, corrected):
    data = few.x_train, few.y_train, few.x_test
    law = fw.predict(corrected.net, *data, order=1, ridge=0.7)
    assert_close(corrected.law.mean, law.mean)
    assert_close(
        corrected.infinite_spread, few.unit * np.asarray(fw.predict(corrected.net, *data, ridge=0.7).std)
    )
    assert corrected.remark == ""
    assert summary(corrected)["prediction"]["order"] == 1
    assert "spread at infinite width" in predictions(corrected)


@pytest.mark.parametrize(
    ("change", "remark"),
    [({"hidden": (2,)}, "since its correction is not small"), ({"activation": "relu"}, "")],
)
def test_infinite_width_is_shown_otherwise(few, change, remark):
    choices = Choices((2000,), "tanh", ridge=0.001, order="auto", compare=False)._replace(**change)
    study = run_study(few, choices)
    assert study.law.correction is None
    assert remark in study.remark
    assert summary(study)["prediction"]["order"] == 0
    if remark:
        assert remark in " ".join(describe(study))


def test_kinks_have_a_correction_in_one_over_the_root_of_the_width():
    data = things(train=2)
    asked = Choices((4000,), "relu", C_b=0.3, C_W=1.5, ridge=0.7, steps=6, order="1/2", compare=False)
    study = run_study(data, asked)
    rows = data.x_train, data.y_train, data.x_test
    law = fw.predict(study.net, *rows, fw.GradientDescent(steps=6), order="1/2", ridge=0.7)
    assert_close(study.law.mean, law.mean)
    told = summary(study)
    assert told["prediction"]["order"] == "1/2"
    assert told["finite width"]["by origin (rms)"] == {}
    assert "with the correction in 1/sqrt(width)" in report_page(study)
    assert "to first order in 1/sqrt(width)" in " ".join(describe(study))


def test_a_long_computation_is_left_to_the_user(few, monkeypatch):
    monkeypatch.setattr(corrected_law, "_LONGEST_SECONDS", 1.0)
    study = run_study(few, Choices((2000,), "tanh", ridge=0.7, order="auto", compare=False))
    assert study.law.correction is None
    assert "--order 1 does it" in study.remark


def test_the_estimate_grows_with_rows_layers_and_outputs():
    base = estimated_seconds(fw.MLP((64, 64), "tanh"), 400)
    assert estimated_seconds(fw.MLP((64, 64), "tanh"), 800) > base
    assert estimated_seconds(fw.MLP((64, 64, 64), "tanh"), 400) > base
    assert estimated_seconds(fw.MLP((64, 64), "tanh", n_out=3), 400) > base


def test_training_stops_where_held_out_rows_say(few):
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(2, 30))
    table = Table("things", {"a": a, "b": b, "y": np.sin(a) + 0.5 * b + rng.normal(size=30)})
    study = run_study(prepare(table, None, Options("y")), Choices((8,), "tanh", stop="auto", compare=False))
    data = study.data
    problem = fw.TrainingProblem.of(study.net, data.x_train, data.y_train, data.x_test)
    assert study.ridge == 0.0
    assert study.stop_chosen
    assert study.algorithm.steps == choose_stop(problem, fw.GradientDescent()).at
    assert "steps (chosen by leaving out training rows)" in training_words(study)
    assert summary(study)["training"]["steps chosen on the training rows"] is True
