"""How often a class wins, and the noise of labels, against a normal law, simulation and known noise."""

import numpy as np
import pytest
from scipy import stats

from finitewidth.prediction.law.class_probabilities import label_noise, winning_probability
from finitewidth.prediction.problem.leave_one_out import LeftOut
from tolerances import assert_close


def test_two_classes_win_as_a_normal_difference_does():
    gaps, variance = np.linspace(-3, 3, 13), np.linspace(0.2, 2.0, 13)
    mean = np.stack([0.5 * gaps, -0.5 * gaps], axis=1)
    expected = stats.norm.cdf(gaps / np.sqrt(2 * variance))
    assert_close(winning_probability(mean, variance)[:, 0], expected, 1e-8)


def test_three_classes_win_as_often_as_in_simulations(rng):
    mean, variance, draws = np.array([[0.3, -0.2, 0.6]]), np.array([0.7]), 200_000
    winner = (mean + np.sqrt(0.7) * rng.normal(size=(draws, 3))).argmax(axis=1)
    share = np.bincount(winner) / draws
    expected = winning_probability(mean, variance)[0]
    assert (np.abs(share - expected) < 4 * np.sqrt(expected * (1 - expected) / draws)).all()


@pytest.mark.parametrize("noise", [0.3, 1.0])
def test_a_known_noise_is_found_beside_unequal_spreads(rng, noise):
    """Labels elected by outputs with the networks' own variance, 0 to 3, and that of the noise."""
    points = 40_000
    variance = rng.uniform(0.0, 3.0, size=points)
    mean = 1.5 * rng.normal(size=(points, 3))
    outputs = mean + np.sqrt(variance + noise)[:, None] * rng.normal(size=(points, 3))
    found = label_noise(LeftOut(mean, variance), outputs.argmax(axis=1))
    # The curvature of the loss gives the standard error of the most probable noise.
    own = lambda s: winning_probability(mean, variance + s)[np.arange(points), outputs.argmax(axis=1)]
    step = 0.1 * noise
    score = (np.log(own(noise + step)) - np.log(own(noise - step))) / (2 * step)
    error = 1 / np.sqrt(np.sum(score**2))
    assert error < 0.12 * noise
    assert abs(found.variance - noise) < 4 * error + 0.02 * noise
    assert_close(found.loss, -np.log(own(found.variance)).mean(), 1e-6)
