"""Every estimator, every method, every kind of input: an array and the frames that hold it say the same."""

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest

from finitewidth.estimators import (
    DeepLinearRegressor,
    NearlyKernelRegressor,
    NNGPClassifier,
    NNGPRegressor,
    NTKClassifier,
    NTKRegressor,
)
from tolerances import SOLVE, assert_close

TRAIN, TEST = slice(0, 12), slice(12, 17)
WIDE = {"depth": 2, "activation": "erf", "C_b": 0.2, "C_W": 1.5}
SPREAD = {
    "predict(return_std)": lambda model, x, y: model.predict(x, return_std=True),
    "predict(return_cov)": lambda model, x, y: model.predict(x, return_cov=True),
}
SAMPLES = {"sample_y": lambda model, x, y: model.sample_y(x, n_samples=3, random_state=1)}
MACHINE = {"explain": lambda model, x, y: tuple(model.explain(x))}
CLASSES = {
    "decision_function": lambda model, x, y: model.decision_function(x),
    "predict_proba": lambda model, x, y: model.predict_proba(x),
    "predict(return_std)": SPREAD["predict(return_std)"],
}
ALL = {
    "predict": lambda model, x, y: model.predict(x),
    "score": lambda model, x, y: model.score(x, y),
    "again from a pickle": lambda model, x, y: pickle.loads(pickle.dumps(model)).predict(x),
}
ESTIMATORS = {
    "NTKRegressor": (NTKRegressor(**WIDE, ridge=0.1), SPREAD | SAMPLES),
    "NNGPRegressor": (NNGPRegressor(**WIDE, noise=0.1), SPREAD | SAMPLES),
    "DeepLinearRegressor": (DeepLinearRegressor((8,), C_W=1.0, noise=0.1), SPREAD),
    "NearlyKernelRegressor": (NearlyKernelRegressor(neurons=8, epsilon=0.1, ridge=0.1), MACHINE),
    "NearlyKernelRegressor, order 2": (
        NearlyKernelRegressor(neurons=8, epsilon=0.1, ridge=0.1, order=2),
        MACHINE,
    ),
    "NTKClassifier": (NTKClassifier(**WIDE, ridge=0.1), CLASSES | SAMPLES),
    "NNGPClassifier": (NNGPClassifier(**WIDE, noise=0.1), CLASSES | SAMPLES),
}

RNG = np.random.default_rng(0)
SIZE, OTHER = RNG.normal(size=(2, 17)).round(3)
KIND = np.array(["u", "v", "v", "u", "v", "v", "u", "u", "v", "v", "u", "v", "u", "v", "v", "u", "v"])
DAYS = RNG.permutation(17) + 18_000
TARGET = SIZE + OTHER + (KIND == "u")
COLUMNS = {
    "size": SIZE.tolist(),
    "kind": KIND.tolist(),
    "when": DAYS.astype("datetime64[D]").astype(object).tolist(),
    "gaps": [None if row in (4, 14) else value for row, value in enumerate(OTHER.tolist())],
}


def prepared() -> np.ndarray:
    """What the columns of the mixed frames are as inputs, worked out by hand."""
    known = np.delete(OTHER[TRAIN], 4)
    filled = np.where(np.isin(np.arange(17), (4, 14)), np.median(known), OTHER)
    raw = np.stack([SIZE, KIND == "v", DAYS, filled], axis=1).astype(float)
    return (raw - raw[TRAIN].mean(axis=0)) / raw[TRAIN].std(axis=0)


# Frames, and the array that says the same.
NUMBERS = np.stack([SIZE, OTHER], axis=1)
FRAMES = {
    "pandas, numbers": (pd.DataFrame({"size": SIZE, "other": OTHER}), NUMBERS),
    "polars, numbers": (pl.DataFrame({"size": SIZE, "other": OTHER}), NUMBERS),
    "pandas, words, dates and gaps": (
        pd.DataFrame(COLUMNS).assign(when=pd.to_datetime(COLUMNS["when"])),
        prepared(),
    ),
    "polars, words, dates and gaps": (pl.DataFrame(COLUMNS), prepared()),
}


def arrays(answer) -> list[np.ndarray]:
    return [np.asarray(part) for part in (answer if isinstance(answer, tuple) else (answer,))]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("frame", FRAMES)
@pytest.mark.parametrize("name", ESTIMATORS)
def test_every_method_takes_every_frame_and_says_what_it_says_of_the_array(name, frame):
    model, methods = ESTIMATORS[name]
    source, x = FRAMES[frame]
    labels = np.where(np.median(TARGET) < TARGET, "large", "small")
    y = labels if "Classifier" in name else TARGET
    by_array = type(model)(**model.get_params()).fit(x[TRAIN], y[TRAIN])
    by_frame = type(model)(**model.get_params()).fit(source[TRAIN], y[TRAIN])
    for method, ask in (ALL | methods).items():
        found, expected = (
            arrays(ask(*case, y[TEST])) for case in ((by_frame, source[TEST]), (by_array, x[TEST]))
        )
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert one.shape == other.shape
            if one.dtype.kind in "OU":
                assert one.tolist() == other.tolist(), method
            else:
                assert_close(one, other, SOLVE)


def test_names_are_imported_as_users_do():
    """The line that scikit-learn users type, in a process that has loaded nothing else."""
    code = "from finitewidth.estimators import NTKRegressor; print(NTKRegressor(depth=2))"
    found = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (0, "NTKRegressor(depth=2)\n", "")
