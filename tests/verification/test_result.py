"""The numbers of a verification, from outputs whose statistics are known."""

import numpy as np
import pytest
from scipy import stats

from finitewidth.prediction.methods.infinite_width.curves import LossCurves
from finitewidth.verification.result import MeasuredCurves, Verification
from tolerances import assert_close

TIMES = np.zeros(1)
CURVE = LossCurves(TIMES, TIMES, None)


def verification(outputs, mean, std, **changes) -> Verification:
    outputs = np.asarray(outputs, float)
    settings = {
        "networks": len(outputs),
        "steps": 9,
        "eta": 0.1,
        "ridge": 0.0,
        "distance_to_end": 0.0,
        "unsettled": 0.0,
        "order": 0,
        "depth": 3,
        "width": 40,
        "predicted_mean": np.asarray(mean, float),
        "predicted_std": np.asarray(std, float),
        "predicted_correction": None,
        "infinite_std": None,
        "outputs": outputs,
        "predicted_loss": CURVE,
        "loss": MeasuredCurves(TIMES, TIMES, None, None),
    }
    return Verification(**settings | changes)


@pytest.fixture
def few(rng):
    """Five networks at two test points with two outputs."""
    return rng.normal(size=(5, 2, 2)), rng.normal(size=(2, 2)), np.array([0.7, 1.9])


def test_means_are_judged_by_the_test_of_student(few):
    outputs, mean, std = few
    check = verification(outputs, mean, std)
    student = stats.ttest_1samp(outputs, mean, axis=0)
    assert_close(2 * stats.norm.sf(np.abs(check.z_mean)), student.pvalue, 1e-10)
    assert (np.sign(check.z_mean) == np.sign(student.statistic)).all()
    assert_close(check.sem, stats.sem(outputs, axis=0))


def test_five_networks_that_follow_the_law_have_standard_normal_deviates(rng):
    """20,000 comparisons: the share beyond two standard errors is that of the normal law."""
    points = 20_000
    check = verification(rng.normal(size=(5, points, 1)), np.zeros((points, 1)), np.ones(points))
    share = 2 * stats.norm.sf(2)
    error = np.sqrt(share * (1 - share) / points)
    for z in (check.z_mean, check.z_std):
        assert abs(np.mean(np.abs(z) > 2) - share) < 4 * error
        assert abs(np.mean(z)) < 4 / np.sqrt(points)
        assert abs(np.mean(z**2) - 1) < 4 * np.sqrt(2 / points)


def test_spreads_are_judged_by_chi_squared(few):
    """The predicted variance is set so that the measured one is at a known quantile of its law."""
    outputs, mean, _ = few
    outputs, mean = outputs[:, :, :1], mean[:, :1]
    squares = ((outputs - outputs.mean(axis=0)) ** 2).sum(axis=0)[:, 0]
    for share in (0.02, 0.3, 0.8, 0.99):
        check = verification(outputs, mean, np.sqrt(squares / stats.chi2.ppf(share, 4)))
        assert_close(check.z_std, np.full((2, 1), stats.norm.ppf(share)), 1e-9)


def test_a_narrow_spread_is_below_and_a_wide_one_above(few):
    outputs, mean, _ = few
    assert (verification(outputs, mean, [50.0, 50.0]).z_std < -2).all()
    assert (verification(outputs, mean, [0.01, 0.01]).z_std > 2).all()


def test_sizes_are_ratios_of_root_mean_squares():
    outputs = np.array([[[1.0, 5.0]], [[3.0, 9.0]], [[5.0, 7.0]]])
    check = verification(outputs, [[2.0, 4.0]], [3.0])
    # Means (3, 7), sums of squares (8, 8), so variances (4, 4) and squared standard errors (4/3, 4/3).
    assert_close(check.std, np.array([[2.0, 2.0]]))
    assert_close(check.difference.value, np.sqrt((1 + 9) / (4 + 16)))
    assert_close(check.noise, np.sqrt((4 / 3 + 4 / 3) / (4 + 16)))
    assert_close(check.std_ratio.value, 2 / 3)
    # Along the gap, (1, 3) / sqrt(10), the outputs are 16, 30 and 26 over sqrt(10): variance 26 / 5.
    assert_close(check.difference.sem, np.sqrt(26 / 5 / 3) / np.sqrt(4 + 16))
    # Squared deviations (4 + 4, 0 + 4, 4 + 0) / 2 in units of 9: standard deviation sqrt(4 / 3) / 9.
    assert_close(check.std_ratio.sem, np.sqrt(4 / 3) / 9 / (2 * 2 / 3 * np.sqrt(3)))


@pytest.mark.parametrize("shape", [(1, 1), (7, 3)])
def test_the_limit_raises_a_false_alarm_once_in_four_thousand_checks(shape):
    """Means and spreads, both tails of each: four times as many ways as there are outputs."""
    check = verification(np.zeros((3, *shape)), np.zeros(shape), np.ones(shape[0]))
    assert_close(4 * np.prod(shape) * stats.norm.sf(check.z_limit), 2.5e-4, 1e-9)


def test_a_check_agrees_up_to_its_limit(rng):
    outputs = rng.normal(size=(50, 1, 1))
    outputs = (outputs - outputs.mean()) / outputs.std(ddof=1)
    limit = verification(outputs, [[0.0]], [1.0]).z_limit
    at = stats.t.isf(stats.norm.sf(limit), 49) / np.sqrt(50)
    assert "single outputs" not in verification(outputs, [[-0.999 * at]], [1.0]).alarms
    assert "single outputs" in verification(outputs, [[-1.001 * at]], [1.0]).alarms
    assert "single outputs" in verification(outputs, [[0.0]], [0.5]).alarms


def test_any_alarm_is_a_disagreement(rng):
    """Each alarm by itself, and the words for it."""
    outputs = rng.normal(size=(400, 9, 1))
    outputs -= outputs.mean(axis=0)
    outputs = outputs[:, :, 0] @ np.linalg.inv(np.linalg.cholesky(np.cov(outputs[:, :, 0].T))).T
    outputs, mean, identity = 1 + outputs[:, :, None], np.ones((9, 1)), np.eye(9)
    check = lambda mean=mean, covariance=identity: verification(
        outputs, mean, np.sqrt(np.diag(covariance)), predicted_covariance=covariance, width=1000
    )
    assert check().agrees
    assert check().alarms == ()
    assert "verdict: the networks agree with the law" in str(check())
    one = check(mean=mean + 0.3 * identity[:, :1])
    assert (one.alarms, one.agrees) == (("single outputs", "mean"), False)
    assert check(mean=mean + 0.13).alarms == ("mean",)
    assert check(covariance=1.1**2 * identity).alarms == ("spread",)
    tilted = np.eye(9) + 0.25 * (np.ones((9, 9)) - np.eye(9))
    # Eigenvalues 0.75 and, once, 3: of the size at which whitened outputs have unit variance on average.
    tilted *= (8 / 0.75 + 1 / 3) / 9
    assert check(covariance=tilted).alarms == ("shape",)
    assert "the networks differ from the law in shape as a whole" in str(check(covariance=tilted))
    assert "differ from the law in single outputs and in mean as a whole" in str(one)


@pytest.mark.parametrize("whitened", [True, False])
def test_what_a_comparison_could_have_seen_is_said(rng, whitened):
    outputs = rng.normal(size=(64, 30, 1))
    covariance = {"predicted_covariance": np.eye(30)} if whitened else {}
    check = verification(1 + outputs, np.ones((30, 1)), np.ones(30), width=1000, **covariance)
    text = str(check)
    seen = f"a spread wrong by {100 * check.detectable:.2g} % or more would have been noticed nineteen times"
    assert seen in text
    assert 0.08 < check.detectable < 0.12
    assert ("in 30 directions of the covariance" if whitened else "in 30 variances") in text
    assert ("shape p =" in text) == whitened
    ratio = check.overall.spread.ratio
    assert f"spread {ratio.value:.3f} +- {ratio.sem:.3f} times the predicted one" in text
    assert f"measured / predicted {check.std_ratio.value:.3f} +- {check.std_ratio.sem:.3f}" in text


def test_a_law_without_spread_is_judged_output_by_output():
    outputs = np.ones((5, 2, 1)) + 1e-9 * np.arange(5.0)[:, None, None]
    check = verification(outputs, np.ones((2, 1)), np.zeros(2), predicted_covariance=np.zeros((2, 2)))
    assert check.overall is None
    assert check.detectable == np.inf


@pytest.mark.parametrize(("order", "expected"), [(0, 3 / 40), (1, (3 / 40) ** 2)])
def test_what_is_left_out_is_a_power_of_depth_over_width(few, order, expected):
    assert_close(verification(*few, order=order).expected_difference, expected)
