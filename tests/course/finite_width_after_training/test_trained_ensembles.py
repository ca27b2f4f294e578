"""Fits in 1/n and what a verdict about coefficients of 1/n asks for."""

import dataclasses

import numpy as np
import pytest

from finitewidth.course._lab.estimate import Estimate
from finitewidth.course.finite_width_after_training.claims._shared import (
    Case,
    TrainedEnsembles,
    coefficient_checks,
    distance_left,
    intercept,
    scaled_shift,
)
from tolerances import CLOSED_FORM, assert_close

CASES = (Case("tanh", 2, 0.2, 70), Case("tanh", 2, 0.5, 30))
SETTING = TrainedEnsembles(CASES, (64, 128, 256, 512), 2, 2, 2, 0.05, closer=True)
PREDICTED = {"infinite": np.array([[0.3], [0.3]]), "coefficient": np.array([[0.5], [-1.0]])}


def networks(slope=-4.0, sem=0.001, coefficient=PREDICTED["coefficient"]):
    """Means with the predicted coefficient, a slope in 1/n, and n times the standard error `sem`."""
    x = 1 / np.array(SETTING.widths)[:, None, None]
    shift = coefficient * (1 + slope * x + 100 * x**2)
    return Estimate(PREDICTED["infinite"] + x * shift, sem * x * np.ones_like(shift))


def failures(setting=SETTING, **changes):
    predicted = {**PREDICTED, "coefficient": changes.pop("predicted", PREDICTED["coefficient"])}
    checks = coefficient_checks(setting, predicted, networks(**changes))
    return {check.name for check in checks if not check.holds}


def test_a_polynomial_is_recovered():
    value, fits = intercept(SETTING, scaled_shift(SETTING, PREDICTED["infinite"], networks()))
    assert_close(value.value, PREDICTED["coefficient"], CLOSED_FORM)
    expected = PREDICTED["coefficient"] * np.array([1.0, -4.0, 100.0])[:, None, None]
    assert_close(fits, expected, CLOSED_FORM)


def test_the_error_of_extrapolating_two_widths():
    setting = dataclasses.replace(SETTING, widths=(64, 128), degree=1)
    shift = Estimate(np.zeros((2, 1, 1)), np.array([0.3, 0.2])[:, None, None])
    assert_close(intercept(setting, shift)[0].sem, np.sqrt([[0.3**2 + 4 * 0.2**2]]), CLOSED_FORM)


def test_what_a_verdict_asks_for():
    limit, seen = "n (networks - infinite width) as 1/n -> 0", "its change with the training"
    precise, distinct, closer = (
        "standard error / coefficient",
        "standard error / change",
        "distance left at width 64",
    )
    assert failures() == set()
    assert failures(predicted=np.array([[0.5], [-1.1]])) == {limit, seen}
    assert failures(sem=0.1) == {precise}
    assert failures(slope=-30.0) == {closer}
    alike = np.array([[-1.01], [-1.0]])
    assert failures(predicted=alike, coefficient=alike, sem=0.01) == {distinct}
    assert failures(dataclasses.replace(SETTING, closer=False), slope=-30.0) == set()


def test_the_distance_left_has_the_error_of_the_networks():
    """|s - c| / |s| for one entry: its error is |c| / s^2 times that of s."""
    left = distance_left(Estimate(np.array([[2.0]]), np.array([[0.01]])), np.array([[1.5]]))
    assert_close(left.value, np.array([0.25]), CLOSED_FORM)
    assert_close(left.sem, np.array([1.5 / 4 * 0.01]), 1e-4)


def test_noise_may_leave_more_than_a_third_of_the_distance_and_a_wrong_coefficient_may_not():
    """What the networks of two other seeds showed: 0.43 left, with a standard error of 0.07."""
    setting = dataclasses.replace(SETTING, cases=CASES[1:], widths=(64, 128), degree=1, precision=0.25)
    predicted = {"infinite": np.array([[0.3]]), "coefficient": np.array([[-0.704]])}
    noisy, precise = (
        Estimate(0.3 - np.array([[[0.493 / 64]], [[0.6 / 128]]]), np.full((2, 1, 1), sem))
        for sem in (0.0004, 0.00001)
    )
    held, failed = (coefficient_checks(setting, predicted, found)[-1] for found in (noisy, precise))
    assert held.name == failed.name == "distance left at width 64"
    assert held.measured == pytest.approx(0.428, abs=1e-3)
    assert held.sem == pytest.approx(0.074, abs=0.002)
    assert held.holds
    assert not failed.holds


@pytest.mark.parametrize("outputs", [1, 2])
def test_cases_have_their_patients(outputs):
    x, y, x_test = Case("gelu", 3, 0.1, 5, (3, 1), (7,), outputs).data()
    assert (x.shape, y.shape, x_test.shape) == ((2, 10), (2, outputs), (1, 10))
