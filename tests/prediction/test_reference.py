"""Predictions of an independent library; time there multiplies the NTK divided by the number of points."""

import json
import math
from pathlib import Path

import numpy as np
import pytest

import finitewidth as fw
from tolerances import STIFF_SOLVE, assert_close

CASES = json.loads((Path(__file__).parents[1] / "reference" / "kernels.json").read_text())["cases"]


def network(case) -> fw.MLP:
    activation = "leaky_relu:0.1" if case["activation"].startswith("leaky") else case["activation"]
    hidden = (1,) * (case["depth"] - 1)
    return fw.MLP(hidden, activation, *(case[name] for name in ("C_b", "C_W", "lambda_b", "lambda_W")))


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['activation']}-{c['depth']}")
@pytest.mark.parametrize("time", ["1.0", "10.0", "100.0", "inf"])
def test_trained_law_at_every_time(case, time):
    x, y, x_test = (np.array(case[name]) for name in ("x_train", "y_train", "x_test"))
    expected = case["predict"][time]
    algorithm = fw.GradientFlow(math.inf if time == "inf" else float(time) / len(x))
    law = fw.predict(network(case), x, y, x_test, algorithm)
    assert_close(law.mean, np.array(expected["ntk_mean"]).reshape(law.mean.shape), STIFF_SOLVE)
    assert_close(law.covariance, np.array(expected["ntk_cov"]), STIFF_SOLVE)


@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c['activation']}-{c['depth']}")
def test_posterior_of_the_nngp(case):
    x, y, x_test = (np.array(case[name]) for name in ("x_train", "y_train", "x_test"))
    expected = case["predict"]["inf"]
    law = fw.predict(network(case), x, y, x_test, fw.BayesianInference())
    assert_close(law.mean, np.array(expected["nngp_mean"]).reshape(law.mean.shape), STIFF_SOLVE)
    assert_close(law.covariance, np.array(expected["nngp_cov"]), STIFF_SOLVE)
