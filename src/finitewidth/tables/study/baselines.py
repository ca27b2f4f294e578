"""What other methods reach on the same rows: a measure of what the networks' law is worth."""

import itertools
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Shaped

from finitewidth._base.estimate import Estimate
from finitewidth.tables.study.preparation import Prepared
from finitewidth.tables.study.scores import explained_variance, mean_over_rows, root_mean_square

_RIDGES = np.logspace(-3, 5, 17)
_PENALTIES = (0.01, 0.1, 1.0, 10.0)
_FOLDS, _ROWS_TO_TUNE_ON = 5, 1_000
# Rounds of boosting, trees for all outputs together; rounds times rate is the same for any number of outputs.
_ROUNDS, _FEWEST_ROUNDS, _RATE_TIMES_ROUNDS = 200, 40, 10.0
_LEAVES, _ROWS_OF_A_LEAF = (3, 10, 30), 20
_TREES_TO_TUNE, _TREES, _TREES_OF_MANY_ROWS, _MANY_ROWS = 50, 300, 50, 20_000


class Baseline(NamedTuple):
    """Another method at the test rows.

    Attributes
    ----------
    score
        The share of the variance that it explains, or of the rows that it classifies correctly.
    rmse
        Its error in units of the target, None for classes.
    ahead
        By how much the networks' score is larger than this one. Its standard error is that of the difference
        on the same rows, smaller than those of the two scores.
    settings
        What cross-validation chose, in words.
    """

    name: str
    score: Estimate
    rmse: float | None
    ahead: Estimate
    settings: str


class _Task(NamedTuple):
    """Training rows, and the folds to choose settings by; classes are numbers and their targets one-hot."""

    x: Float[np.ndarray, "rows inputs"]
    y: Shaped[np.ndarray, " rows"]
    classes: int

    def squared_error(self, predicted: np.ndarray, rows: np.ndarray) -> float:
        """Sum over rows, of probabilities for classes."""
        target = np.eye(self.classes)[self.y[rows]] if self.classes else self.y[rows]
        return float(np.sum((predicted - target) ** 2))

    def folds(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Rows to fit and rows to judge by; every fit sees all classes."""
        from sklearn.model_selection import KFold, StratifiedKFold

        rows = np.arange(len(self.y))
        if len(rows) > _ROWS_TO_TUNE_ON:
            rows = np.random.default_rng(0).choice(rows, _ROWS_TO_TUNE_ON, replace=False)
        most = np.bincount(self.y[rows]).max() if self.classes else len(rows)
        if most < 2:
            return
        split = (StratifiedKFold if self.classes else KFold)(min(_FOLDS, most), shuffle=True, random_state=0)
        for fitted, judged in split.split(rows, self.y[rows]):
            if not self.classes or len(np.unique(self.y[rows[fitted]])) == self.classes:
                yield rows[fitted], rows[judged]


def baselines(data: Prepared, mean: Float[np.ndarray, "test out"]) -> tuple[Baseline, ...]:
    """Ridge (or logistic) regression, gradient boosting and extra trees on the same inputs and training rows.

    Cross-validation on the training rows chooses their settings; `mean` is the networks' prediction.
    """
    if data.y_test is None:
        return ()
    x, x_test = (part.reshape(len(part), -1) for part in (data.x_train, data.x_test))
    task = _Task(x, data.y_train[:, 0] if data.labels is None else data.labels, len(data.classes))
    found = []
    with warnings.catch_warnings():
        # A penalty at the end of its range, a class of one row, a loss that falls by a hair: good enough.
        warnings.simplefilter("ignore")
        for name, model, settings in (_linear(task), _boosting(task), _trees(task)):
            predicted = np.asarray(model.fit(x, task.y).predict(x_test))
            found.append(_scored(data, name, settings, predicted, mean))
    return tuple(found)


def _scored(data: Prepared, name: str, settings: str, predicted: np.ndarray, mean: np.ndarray) -> Baseline:
    if data.labels_test is not None:
        hits = predicted == data.labels_test
        own = mean.argmax(axis=1) == data.labels_test
        return Baseline(
            name, mean_over_rows(hits), None, mean_over_rows(own - 1.0 * hits, (-1.0, 1.0)), settings
        )
    assert data.y_test is not None
    y = data.y_test[:, 0]
    own, others = (part - y for part in (mean[:, 0], predicted))
    rmse = data.unit * root_mean_square(others)
    ahead = explained_variance(own**2 - others**2, y).plus(-1.0)
    return Baseline(name, explained_variance(others**2, y), rmse, ahead, settings)


def _best(task: _Task, models: list[tuple[str, Any]]) -> tuple[str, Any]:
    """The model of least squared error at rows that are left out; the first where none can be."""
    errors = np.zeros(len(models))
    for fitted, judged in task.folds():
        for place, (_, model) in enumerate(models):
            model.fit(task.x[fitted], task.y[fitted])
            predict = model.predict_proba if task.classes else model.predict
            errors[place] += task.squared_error(predict(task.x[judged]), judged)
    return models[int(errors.argmin())]


def _linear(task: _Task) -> tuple[str, Any, str]:
    from sklearn.linear_model import LogisticRegression, RidgeCV

    if not task.classes:
        return "tuned ridge regression", RidgeCV(_RIDGES), "penalty by leaving out rows one by one"
    models = [(f"C = {C:g}", LogisticRegression(C=C, max_iter=1000)) for C in _PENALTIES]
    settings, model = _best(task, models)
    return "tuned logistic regression", model, settings


def _boosting(task: _Task) -> tuple[str, Any, str]:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    outputs = task.classes if task.classes > 2 else 1
    rounds = max(_ROUNDS // outputs, _FEWEST_ROUNDS)
    kind = HistGradientBoostingClassifier if task.classes else HistGradientBoostingRegressor
    rows = len(task.y)
    common = {
        "learning_rate": _RATE_TIMES_ROUNDS / rounds,
        "min_samples_leaf": max(1, min(_ROWS_OF_A_LEAF, rows // _ROWS_OF_A_LEAF)),
        "early_stopping": False,
        "random_state": 0,
    }
    leaves = [leaves for leaves in _LEAVES if leaves * _ROWS_OF_A_LEAF <= rows] or [_LEAVES[0]]
    errors = np.zeros((len(leaves), rounds))
    for fitted, judged in task.folds():
        for place, count in enumerate(leaves):
            model = kind(max_iter=rounds, max_leaf_nodes=count, **common).fit(task.x[fitted], task.y[fitted])
            stages = (model.staged_predict_proba if task.classes else model.staged_predict)(task.x[judged])
            errors[place] += [task.squared_error(stage, judged) for stage in stages]
    best, last = np.unravel_index(errors.argmin(), errors.shape)
    if rows > _ROWS_TO_TUNE_ON:
        # More rows carry more rounds: as many as help a tenth of them that is left out.
        common |= {"early_stopping": True, "validation_fraction": 0.1}
        last = 5 * rounds - 1
    tuned = kind(max_iter=int(last) + 1, max_leaf_nodes=leaves[best], **common)
    length = f"at most {last + 1} rounds" if rows > _ROWS_TO_TUNE_ON else f"{last + 1} rounds"
    words = f"{length} of {leaves[best]} leaves, rate {common['learning_rate']:g}"
    return "tuned gradient boosting", tuned, words


def _trees(task: _Task) -> tuple[str, Any, str]:
    from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor

    kind: Any = ExtraTreesClassifier if task.classes else ExtraTreesRegressor
    models = [
        (
            f"leaves of {rows} or more rows, {share:.0%} of the inputs tried for each cut",
            kind(_TREES_TO_TUNE, min_samples_leaf=rows, max_features=share, random_state=0),
        )
        for rows, share in itertools.product((1, 2, 4, 8), (1.0, 0.5))
    ]
    settings, model = _best(task, models)
    trees = _TREES if len(task.y) <= _MANY_ROWS else _TREES_OF_MANY_ROWS
    return "tuned extra trees", model.set_params(n_estimators=trees), f"{trees} trees, {settings}"
