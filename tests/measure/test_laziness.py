"""How far a network has moved, where it is known how far."""

import sys

import numpy as np
import pytest
import torch

from finitewidth.measure.loss.laziness import kernel_points, laziness, tangent_kernel
from finitewidth.measure.specimen import specimen
from tolerances import assert_close

RNG = np.random.default_rng(11)
X = RNG.normal(size=(7, 4))


def linear():
    return torch.nn.Linear(4, 2, dtype=torch.float64)


def relu(width=5):
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, width), torch.nn.ReLU(), torch.nn.Linear(width, 2)).double()


def test_a_network_that_has_not_moved():
    now = specimen(relu(), X)
    found = laziness(now, now.at(now.weights))
    assert found.kernel_change == found.weights_change == found.moved_gates == 0
    assert found.kernel_turn < 1e-12
    assert [part.name for part in found.features] == ["0", "2"]
    assert all(part.change == 0 and part.turn < 1e-12 for part in found.features)


def test_a_model_that_is_linear_in_its_weights_is_lazy():
    """The kernel stays, however far the weights go; they have doubled, and so have the features."""
    start = specimen(linear(), X)
    found = laziness(start, start.at(2 * start.weights))
    assert found.kernel_change == 0
    assert_close(found.weights_change, 1.0)
    assert_close(found.features[0].change, 1.0)
    assert found.features[0].turn < 1e-12
    assert found.moved_gates is None


def test_a_kernel_that_only_grows_does_not_turn():
    """Without biases, twice the weights of both layers are four times the kernel."""
    torch.manual_seed(1)
    parts = [torch.nn.Linear(4, 5, bias=False), torch.nn.ReLU(), torch.nn.Linear(5, 2, bias=False)]
    start = specimen(torch.nn.Sequential(*parts).double(), X)
    found = laziness(start, start.at(2 * start.weights))
    assert_close(found.kernel_change, 3.0)
    assert found.kernel_turn < 1e-12
    assert found.moved_gates == 0
    back = laziness(start, start.at(-start.weights))
    assert back.moved_gates == 1
    assert_close(back.features[0].change, 2.0)
    assert back.features[0].turn < 1e-12


def test_against_the_definitions():
    start = specimen(relu(), X)
    now = start.at(start.weights + 0.3 * RNG.normal(size=start.weights.shape))
    found = laziness(start, now)
    kernels = []
    for measured in (start, now):
        jacobian = measured.jacobian().reshape(14, -1)
        kernels.append(jacobian @ jacobian.T)
        assert_close(tangent_kernel(measured, 7), kernels[-1])
    one, two = kernels
    assert_close(found.kernel_change, np.linalg.norm(two - one) / np.linalg.norm(one))
    assert_close(found.kernel_turn, 1 - np.sum(one * two) / np.linalg.norm(one) / np.linalg.norm(two))
    before, after = (measured.look(np.ones((7, 2)))[0].leaving for measured in (start, now))
    assert_close(found.moved_gates, np.mean((before > 0) != (after > 0)))
    assert 0 < found.moved_gates < 1
    centre = np.eye(7) - 1 / 7
    grams = [centre @ z @ z.T @ centre for z in (before, after)]
    alignment = np.sum(grams[0] * grams[1]) / np.linalg.norm(grams[0]) / np.linalg.norm(grams[1])
    assert_close(found.features[0].turn, 1 - alignment)


def test_only_some_points_are_taken_for_the_kernel():
    wide = specimen(linear(), RNG.normal(size=(260, 4)))
    assert laziness(wide, wide).kernel_points == 200


def test_another_network_is_refused():
    with pytest.raises(ValueError, match="start has 37 weights and 7 points, now has 30 and 7"):
        laziness(specimen(relu(), X), specimen(relu(4), X))


@pytest.mark.parametrize(("limit", "points"), [(10**9, 200), (150 * 37 * 8, 75), (1, 30)])
def test_a_large_jacobian_is_avoided_by_fewer_points(monkeypatch, limit, points):
    """37 weights of 8 bytes and 2 outputs: 400 rows, then as many as fit, and no fewer than 60."""
    monkeypatch.setattr(sys.modules[kernel_points.__module__], "_JACOBIAN_BYTES", limit)
    assert kernel_points(specimen(relu(), RNG.normal(size=(300, 4)))) == points
