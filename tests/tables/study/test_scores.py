"""Scores against their definitions and against scikit-learn."""

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import accuracy_score, log_loss, mean_absolute_error, r2_score

from finitewidth.tables.study.scores import (
    ClassificationScores,
    RegressionScores,
    explained_variance,
    mean_over_rows,
    reliability,
)
from tolerances import assert_close


def test_regression(rng):
    mean, std = rng.normal(size=4000), np.full(4000, 0.7)
    y = mean + 0.7 * rng.normal(size=4000)
    scores = RegressionScores.of(mean, std, y)
    assert_close(scores.r2, r2_score(y, mean))
    assert_close(scores.mae, mean_absolute_error(y, mean))
    assert abs(scores.rmse - 0.7) < 0.03
    # A correct law covers what it says, to four standard errors of a share.
    gap = np.abs(scores.calibration.observed - scores.calibration.levels)
    assert (gap < 4 * np.sqrt(0.25 / 4000)).all()
    assert RegressionScores.of(mean, 3 * std, y).calibration.error > 0.2
    assert RegressionScores.of(mean, std / 3, y).calibration.error > 0.2
    assert scores.loss < min(RegressionScores.of(mean, c * std, y).loss for c in (0.5, 2.0))


def test_regression_by_definition(rng):
    mean, std, y = rng.normal(size=30), rng.uniform(0.3, 2.0, size=30), rng.normal(size=30)
    scores = RegressionScores.of(mean, std, y)
    assert_close(scores.loss, -stats.norm.logpdf(y, mean, std).mean())
    assert_close(scores.rmse, np.linalg.norm(y - mean) / np.sqrt(30))
    low, high = stats.norm.interval(scores.calibration.levels[:, None], mean, std)
    observed = ((low <= y) & (y <= high)).mean(axis=1)
    assert_close(scores.calibration.observed, observed)
    assert_close(scores.calibration.error, np.abs(observed - scores.calibration.levels).mean())
    assert scores.calibration.at(0.68) == observed[6]


def test_classification(rng):
    probability = rng.dirichlet(np.ones(4), size=5000)
    labels = (probability.cumsum(axis=1) < rng.uniform(size=(5000, 1))).sum(axis=1)
    scores = ClassificationScores.of(probability, labels)
    assert_close(scores.accuracy, accuracy_score(labels, probability.argmax(axis=1)))
    assert_close(scores.loss, log_loss(labels, probability, labels=range(4)))
    assert scores.calibration.error < 0.03
    sure = probability**3 / (probability**3).sum(axis=1, keepdims=True)
    assert ClassificationScores.of(sure, labels).calibration.error > 0.1


def test_reliability_of_three_groups():
    confidence = np.array([0.55, 0.5, 0.95, 1.0, 0.92])
    parts = reliability(confidence, np.array([True, False, True, True, False]))
    assert_close(parts.confidence, np.array([0.525, (0.95 + 1 + 0.92) / 3]))
    assert_close(parts.accuracy, np.array([0.5, 2 / 3]))
    assert parts.rows.tolist() == [2, 3]
    assert parts.error == pytest.approx((2 * 0.025 + 3 * (2.87 / 3 - 2 / 3)) / 5)


def test_standard_errors_are_those_of_drawn_rows(rng):
    """Two thousand sets of test rows from one law, and what one set says of their spread."""
    rows = 300
    y = rng.normal(size=(2_000, rows))
    squares = (0.7 * y + 0.4 * rng.normal(size=y.shape)) ** 2
    measured = np.array([explained_variance(s, t).value for s, t in zip(squares, y, strict=True)]).std()
    stated = np.mean([explained_variance(s, t).sem for s, t in zip(squares[:200], y[:200], strict=True)])
    assert stated == pytest.approx(measured, rel=0.08)
    # All of 48 rows are right: one wrong row among 50 is a standard error of 0.14 / sqrt(50).
    assert mean_over_rows(np.full(48, True)).sem == pytest.approx(np.sqrt(0.02 * 0.98 / 50))
    hits = rng.random((2_000, rows)) < 0.8
    measured = hits.mean(axis=1).std()
    assert np.mean([mean_over_rows(h).sem for h in hits[:200]]) == pytest.approx(measured, rel=0.08)
