"""Digits from the command line to the files: 1,500 rows to learn from, 297 to recognise."""

import csv
import json

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tolerances import assert_close


@pytest.mark.usefixtures("optimised")
def test_as_accurate_as_a_tuned_support_vector_machine_and_calibrated(command, tmp_path):
    result = command("predict", "digits", "--train", "1500", "--out", "digits")
    assert result.code == 0, result.err
    with (tmp_path / "digits" / "predictions.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    test = np.array([int(row["row"]) - 1 for row in rows])
    x, y = load_digits(return_X_y=True)
    assert len(test) == 297
    accuracy = np.mean([row["predicted"] == str(label) for row, label in zip(rows, y[test], strict=True)])
    train = np.setdiff1d(np.arange(len(x)), test)
    grid = {"svc__C": [1, 10, 100], "svc__gamma": [0.05, 0.1, 0.2, 0.4]}
    pixels = make_pipeline(StandardScaler(with_std=False), SVC())
    svc = GridSearchCV(pixels, grid, cv=3).fit(x[train] / 16, y[train]).score(x[test] / 16, y[test])
    assert accuracy >= svc - 0.01
    scores = json.loads((tmp_path / "digits" / "summary.json").read_text())["scores"]
    assert_close(scores["accuracy"], accuracy)
    assert scores["calibration error"] < 0.02
    assert scores["loss"] < 0.05
