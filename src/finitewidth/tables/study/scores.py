"""How good predictions are, and whether their uncertainty is what it says."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import erfinv

from finitewidth._base.estimate import Estimate

LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.68, 0.8, 0.9, 0.95])
_BINS = 10


def root_mean_square(values: np.ndarray | Array) -> float:
    """Typical size of the entries."""
    return float(np.sqrt(np.mean(np.square(np.asarray(values)))))


def explained_variance(squares: Float[np.ndarray, " rows"], y: Float[np.ndarray, " rows"]) -> Estimate:
    """1 - mean(squares) / var(y), where a square is a squared error, and its standard error over rows."""
    around = (y - y.mean()) ** 2
    spread = max(float(around.mean()), np.finfo(float).tiny)
    share = float(squares.mean()) / spread
    return Estimate.of(1 - share, np.std(squares - share * around) / (spread * math.sqrt(len(y))))


def mean_over_rows(values: np.ndarray, ends: tuple[float, float] = (0.0, 1.0)) -> Estimate:
    """Mean over rows, such as those that are right or wrong, and its standard error.

    Two more rows, with the least and the largest possible value, keep the error from being zero where all
    rows happen to agree.
    """
    more = np.append(values.astype(float), ends)
    return Estimate.of(values.mean(), more.std() / math.sqrt(len(more)))


class Coverage(NamedTuple):
    """Share of test values inside central intervals that should hold the share `levels`."""

    levels: Float[np.ndarray, " levels"]
    observed: Float[np.ndarray, " levels"]

    def at(self, level: float) -> float:
        """Observed share at one of the levels."""
        return float(self.observed[np.argmin(np.abs(self.levels - level))])

    @property
    def error(self) -> float:
        """Mean distance of observed and expected shares."""
        return float(np.abs(self.observed - self.levels).mean())


class Reliability(NamedTuple):
    """Accuracy of test rows grouped by the probability of the predicted class.

    `error` is the expected calibration error: the mean gap of the two, weighted by rows.
    """

    confidence: Float[np.ndarray, " bins"]
    accuracy: Float[np.ndarray, " bins"]
    rows: Int[np.ndarray, " bins"]

    @property
    def error(self) -> float:
        """Mean gap between confidence and accuracy."""
        gap = np.abs(self.confidence - self.accuracy)
        return float(np.sum(gap * self.rows) / np.sum(self.rows))


class RegressionScores(NamedTuple):
    """Of the mean prediction, in units of the target.

    `r2_error` is the standard error of `r2` by the choice of test rows; `loss` is the negative log likelihood
    per row.
    """

    rmse: float
    mae: float
    r2: float
    r2_error: float
    loss: float
    calibration: Coverage

    @classmethod
    def of(
        cls, mean: Float[np.ndarray, " test"], std: Float[np.ndarray, " test"], y: Float[np.ndarray, " test"]
    ) -> "RegressionScores":
        """Compare Gaussian predictions with the values that came."""
        error = y - mean
        r2 = explained_variance(error**2, y)
        z = np.abs(error) / std
        inside = np.array([float(np.mean(z <= math.sqrt(2) * erfinv(level))) for level in LEVELS])
        return cls(
            rmse=float(np.sqrt(np.mean(error**2))),
            mae=float(np.abs(error).mean()),
            r2=float(r2.value),
            r2_error=float(r2.sem),
            loss=float(np.mean(0.5 * z**2 + np.log(std * math.sqrt(2 * math.pi)))),
            calibration=Coverage(LEVELS, inside),
        )


class ClassificationScores(NamedTuple):
    """Of the most probable class; `loss` is the negative log probability of the true class per row.

    `accuracy_error` is the standard error of `accuracy` by the choice of test rows.
    """

    accuracy: float
    accuracy_error: float
    loss: float
    calibration: Reliability

    @classmethod
    def of(
        cls, probability: Float[np.ndarray, "test classes"], labels: Int[np.ndarray, " test"]
    ) -> "ClassificationScores":
        """Compare class probabilities with the classes that came."""
        confidence, correct = probability.max(axis=1), probability.argmax(axis=1) == labels
        # No row of a table is impossible; one row in a million of its size bounds the loss.
        own = np.maximum(probability[np.arange(len(labels)), labels], 1e-6 / len(labels))
        right = mean_over_rows(correct)
        loss = float(-np.log(own).mean())
        return cls(float(right.value), float(right.sem), loss, reliability(confidence, correct))


def reliability(
    confidence: Float[np.ndarray, " rows"], correct: np.ndarray, bins: int = _BINS
) -> Reliability:
    """Group rows by confidence, in bins of equal width; empty bins are left out."""
    index = np.minimum((confidence * bins).astype(int), bins - 1)
    used, group = np.unique(index, return_inverse=True)
    rows = np.bincount(group, minlength=len(used))
    average = lambda values: np.bincount(group, values.astype(float), minlength=len(used)) / rows
    return Reliability(average(confidence), average(correct), rows)
