"""A real data set end to end: 1,500 digits to learn from, 297 to recognise."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

from finitewidth.prediction.estimators import NNGPClassifier, NTKClassifier


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return train_test_split(x / 16, y, train_size=1500, test_size=297, random_state=0, stratify=y)


@pytest.fixture(scope="module")
def best_svc(digits):
    """Accuracy of the support vector machine that cross-validation chooses."""
    x, x_test, y, y_test = digits
    grid = {"C": [1, 10], "gamma": [0.05, 0.1, 0.2, 0.4]}
    return GridSearchCV(SVC(), grid, cv=3).fit(x, y).score(x_test, y_test)


def calibration_error(probability, correct, bins=10):
    """Expected gap between confidence and accuracy, over equal bins of confidence."""
    confidence = probability.max(axis=1)
    bin_of = np.minimum((confidence * bins).astype(int), bins - 1)
    gaps = [abs(confidence[bin_of == b].mean() - correct[bin_of == b].mean()) * np.mean(bin_of == b)
            for b in np.unique(bin_of)]  # fmt: skip
    return sum(gaps)


@pytest.mark.parametrize("model", [NTKClassifier(ridge=1e-3), NNGPClassifier(noise=1e-3)])
def test_as_accurate_as_the_best_support_vector_machine_and_calibrated(model, digits, best_svc):
    x, x_test, y, y_test = digits
    probability = model.fit(x, y).predict_proba(x_test)
    correct = model.classes_[probability.argmax(axis=1)] == y_test
    assert correct.mean() >= best_svc - 0.01
    assert calibration_error(probability, correct) < 0.02
    assert -np.log(np.take_along_axis(probability, y_test[:, None], axis=1)).mean() < 0.05
