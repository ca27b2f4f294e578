import numpy as np
import pytest

import finitewidth as fw
from finitewidth._base.linalg.cholesky import factorise
from finitewidth.prediction.problem.leave_one_out import posterior_left_out, trained_left_out
from tolerances import SOLVE, assert_close

NET = fw.MLP((1, 1), "relu", 0.1, 2.0)


@pytest.fixture
def data(rng):
    return rng.normal(size=(7, 3)), rng.normal(size=(7, 2))


@pytest.mark.parametrize("ridge", [0.0, 0.2])
def test_trained_networks_left_out(data, ridge):
    x, y = data
    kernel = fw.kernels(NET, x)
    found = trained_left_out(factorise(kernel.ntk, ridge), kernel.nngp, y)
    for i in (0, 4):
        rest = np.delete(np.arange(7), i)
        law = fw.predict(NET, x[rest], y[rest], x[i : i + 1], ridge=ridge)
        assert_close(found.mean[i], law.mean[0], SOLVE)
        assert_close(found.variance[i], law.covariance[0, 0], SOLVE)


def test_posterior_left_out(data):
    x, y = data
    found = posterior_left_out(factorise(fw.kernels(NET, x).nngp, 0.2), 0.2, y)
    for i in (0, 4):
        rest = np.delete(np.arange(7), i)
        law = fw.predict(NET, x[rest], y[rest], x[i : i + 1], fw.BayesianInference(0.2))
        assert_close(found.mean[i], law.mean[0], SOLVE)
        assert_close(found.variance[i], law.covariance[0, 0], SOLVE)
