"""A real data set: 1,500 digits to learn from, 297 to recognise; every choice is made on the 1,500."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.svm import SVC

import finitewidth as fw
from finitewidth.estimators.wide_network import NNGPClassifier, NTKClassifier
from finitewidth.prediction.methods.infinite_width.ridge import choose_ridge
from finitewidth.tables.study.scores import ClassificationScores


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


def by_leaving_out(x, one_hot) -> NTKClassifier:
    """The ridge under which left-out labels are most probable."""
    problem = fw.TrainingProblem.of(fw.MLP((1, 1), "relu", 0.1, 2.0), x, one_hot, x[:1])
    return NTKClassifier(ridge=choose_ridge(problem, fw.DirectOptimization()).ridge)


def by_evidence(x, one_hot) -> NNGPClassifier:
    """The noise under which all labels are most probable."""
    net, noises = fw.MLP((1, 1), "relu", 0.1, 2.0), np.logspace(-4, 0, 9)
    evidence = [float(fw.evidence(net, x, one_hot, noise)) for noise in noises.tolist()]
    return NNGPClassifier(noise=float(noises[np.argmax(evidence)]))


@pytest.mark.usefixtures("optimised")
@pytest.mark.parametrize("choose", [by_leaving_out, by_evidence])
def test_as_accurate_as_the_best_support_vector_machine_and_calibrated(choose, digits, best_svc):
    x, x_test, y, y_test = digits
    probability = choose(x, np.eye(10)[y] - 0.1).fit(x, y).predict_proba(x_test)
    scores = ClassificationScores.of(probability, y_test)
    assert scores.accuracy >= best_svc - 0.01
    assert scores.calibration.error < 0.02
    assert scores.loss < 0.05
