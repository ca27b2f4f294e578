"""The closed forms of the trained mean and covariance against direct iteration."""

import numpy as np
import pytest

from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.prediction.methods.first_order.dense.covariance import composite, dense_covariance
from finitewidth.prediction.methods.first_order.dense.mean import dense_mean
from finitewidth.prediction.methods.first_order.training_modes import TrainingModes
from tolerances import SOLVE, assert_close
from truncated_dynamics import Oracle, kernels, random_tensors


def problem(rng, train, test, out, fraction, steps):
    points = train + test
    K, Theta = kernels(rng, points)
    y = rng.normal(size=(train, out))
    eta = fraction / np.linalg.eigvalsh(Theta[:train, :train])[-1]
    return random_tensors(rng, points), TrainingModes.of(K, Theta, y, GradientDescent(float(eta), steps))


def oracle(tensors, modes):
    """The iteration in labels (output, point)."""
    grown, whole = composite(tensors, modes)
    y = grown.U @ grown.Y[:, 0]
    return Oracle(grown.K, grown.Theta, y, modes.algorithm.eta, modes.algorithm.steps), whole, grown


CASES = [(1, 3, 1, 0.4, 5), (1, 2, 2, 1.6, 4), (2, 2, 1, 0.4, 3), (2, 2, 1, 1.3, 6), (3, 1, 1, 0.7, 4)]


@pytest.mark.parametrize(("out", "train", "test", "fraction", "steps"), CASES)
def test_mean_is_that_of_direct_iteration(rng, out, train, test, fraction, steps):
    tensors, modes = problem(rng, train, test, out, fraction, steps)
    iterated, whole, grown = oracle(tensors, modes)
    parts = dense_mean(tensors, modes)
    expected = {
        "mean_ntk": iterated.mean_kernel(whole.H1)[0],
        "ntk_fluctuations": iterated.fluctuating_kernel(whole.HH)[0],
        "dntk": iterated.moving_kernel(whole.dz)[0],
        "ddntk": iterated.second_change(whole.I, whole.J)[0],
    }
    for name, value in expected.items():
        assert_close(getattr(parts, name), value[grown.train :].reshape(out, test).T, SOLVE)


@pytest.mark.parametrize(("out", "train", "test", "fraction", "steps"), CASES[:4])
def test_covariance_is_that_of_direct_iteration(rng, out, train, test, fraction, steps):
    tensors, modes = problem(rng, train, test, out, fraction, steps)
    iterated, whole, grown = oracle(tensors, modes)
    expected = (
        iterated.start(whole.G1)
        + iterated.mean_kernel(whole.H1)[1]
        + iterated.correlated_kernel(whole.zzH)[1]
        + iterated.fluctuating_kernel(whole.HH)[1]
        + iterated.moving_kernel(whole.dz)[1]
        + iterated.second_change(whole.I, whole.J)[1]
    )
    rows = expected[grown.train :, grown.train :].reshape(out, test, out, test).transpose(1, 0, 3, 2)
    assert_close(dense_covariance(tensors, modes), rows, SOLVE)
