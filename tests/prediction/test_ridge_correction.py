"""Order 1/width with a ridge: reference numbers of an independent program, limits, and trained networks."""

import json
from pathlib import Path

import numpy as np
import pytest

import finitewidth as fw
from finitewidth.prediction.finite_width.dense.covariance import dense_covariance
from finitewidth.prediction.finite_width.dense.mean import dense_mean
from finitewidth.prediction.finite_width.training_modes import TrainingModes
from finitewidth.statistics.corrections import corrections
from tolerances import TENSORS, assert_close

REFERENCE = json.loads((Path(__file__).parents[1] / "reference" / "ridge.json").read_text())


@pytest.fixture(scope="module", params=REFERENCE["cases"], ids=lambda case: case["name"])
def reference(request):
    case = request.param
    hidden = tuple(round(1000 * ratio) for ratio in case["width_ratios"])
    hyper = (case[name] for name in ("C_b", "C_W", "lambda_b", "lambda_W"))
    net = fw.MLP(hidden, case["activation"], *hyper, case["n_out"])
    return case, corrections(net, np.array(case["x"]))


def modes_of(tensors, y, ridge, algorithm=None):
    kernels = np.asarray(tensors.K), np.asarray(tensors.Theta)
    return TrainingModes.of(*kernels, np.asarray(y), algorithm or fw.GradientDescent(), ridge=ridge)


def test_mean_and_covariance_are_those_of_the_reference(reference):
    case, tensors = reference
    for result in case["results"]:
        modes = modes_of(tensors, case["y"], result["r"])
        origins = dense_mean(tensors, modes)
        scale = max(np.abs(part).max() for part in result["mean_origin"].values())
        for name, expected in result["mean_origin"].items():
            assert_close(getattr(origins, name), expected, TENSORS, scale=scale)
        assert_close(origins.total, result["mean"], TENSORS, scale=scale)
        assert_close(dense_covariance(tensors, modes), result["cov"], TENSORS)


def test_the_step_of_an_open_choice_counts_the_ridge(reference):
    case, tensors = reference
    modes = modes_of(tensors, case["y"], 2.0)
    largest = np.linalg.eigvalsh(np.asarray(tensors.Theta)[: case["n_train"], : case["n_train"]])[-1]
    assert_close(modes.algorithm.eta, 1 / (largest + 2.0))
