"""How good predictions are, and whether their uncertainty is what it says."""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Array, Float, Int
from scipy.special import erfinv

LEVELS = np.array([0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.68, 0.8, 0.9, 0.95])
_BINS = 10


def root_mean_square(values: np.ndarray | Array) -> float:
    """Typical size of the entries."""
    return float(np.sqrt(np.mean(np.square(np.asarray(values)))))


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
    """Of the mean prediction, in units of the target; `loss` is the negative log likelihood per row."""

    rmse: float
    mae: float
    r2: float
    loss: float
    calibration: Coverage

    @classmethod
    def of(
        cls, mean: Float[np.ndarray, " test"], std: Float[np.ndarray, " test"], y: Float[np.ndarray, " test"]
    ) -> "RegressionScores":
        """Compare Gaussian predictions with the values that came."""
        error = y - mean
        z = np.abs(error) / std
        inside = np.array([float(np.mean(z <= math.sqrt(2) * erfinv(level))) for level in LEVELS])
        return cls(
            rmse=float(np.sqrt(np.mean(error**2))),
            mae=float(np.abs(error).mean()),
            r2=1 - float(np.mean(error**2) / max(float(np.var(y)), np.finfo(float).tiny)),
            loss=float(np.mean(0.5 * z**2 + np.log(std * math.sqrt(2 * math.pi)))),
            calibration=Coverage(LEVELS, inside),
        )


class ClassificationScores(NamedTuple):
    """Of the most probable class; `loss` is the negative log probability of the true class per row."""

    accuracy: float
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
        return cls(float(correct.mean()), float(-np.log(own).mean()), reliability(confidence, correct))


def reliability(
    confidence: Float[np.ndarray, " rows"], correct: np.ndarray, bins: int = _BINS
) -> Reliability:
    """Group rows by confidence, in bins of equal width; empty bins are left out."""
    index = np.minimum((confidence * bins).astype(int), bins - 1)
    used, group = np.unique(index, return_inverse=True)
    rows = np.bincount(group, minlength=len(used))
    average = lambda values: np.bincount(group, values.astype(float), minlength=len(used)) / rows
    return Reliability(average(confidence), average(correct), rows)
