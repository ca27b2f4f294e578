"""What other methods reach on the same rows: a measure of what the networks' law is worth."""

import warnings
from typing import NamedTuple

import numpy as np

from finitewidth.tables.study.preparation import Prepared
from finitewidth.tables.study.scores import root_mean_square

_RIDGES = np.logspace(-3, 5, 17)


class Baseline(NamedTuple):
    """Another method at the test rows.

    `score` is the share of the variance that it explains, or of the rows that it classifies correctly;
    `rmse` is its error in units of the target, None for classes.
    """

    name: str
    score: float
    rmse: float | None


def baselines(data: Prepared) -> tuple[Baseline, ...]:
    """Ridge (or logistic) regression and gradient-boosted trees, fitted to the same inputs and training rows.

    They run with scikit-learn's defaults; ridge regression chooses its penalty by leaving out training rows.
    """
    if data.y_test is None:
        return ()
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression, RidgeCV

    if data.labels is not None and data.labels_test is not None:
        y, held = data.labels, data.labels_test
        models = {
            "logistic regression": LogisticRegression(max_iter=1000),
            "boosted trees": HistGradientBoostingClassifier(random_state=0),
        }
    else:
        y, held = data.y_train[:, 0], data.y_test[:, 0]
        models = {
            "ridge regression": RidgeCV(_RIDGES),
            "boosted trees": HistGradientBoostingRegressor(random_state=0),
        }
    x_train, x_test = (x.reshape(len(x), -1) for x in (data.x_train, data.x_test))
    found = []
    for name, model in models.items():
        with warnings.catch_warnings():
            # A penalty at the end of its range or a loss that still falls by a hair is good enough here.
            warnings.simplefilter("ignore", ConvergenceWarning)
            predicted = np.asarray(model.fit(x_train, y).predict(x_test))
        if data.classes:
            found.append(Baseline(name, float(np.mean(predicted == held)), None))
        else:
            error = root_mean_square(predicted - held)
            spread = max(float(np.var(held)), np.finfo(float).tiny)
            found.append(Baseline(name, 1 - error**2 / spread, data.unit * error))
    return tuple(found)
