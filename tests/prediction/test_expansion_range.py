"""Where the first correction can be trusted, in numbers worked out by hand."""

import numpy as np
import pytest

from finitewidth.prediction.law.expansion_range import ExpansionRange

MEAN = np.array([[3.0], [4.0]])


@pytest.mark.parametrize(
    ("coefficient", "kappa", "trusted"),
    [
        # Root mean squares 2 * 3.54 over 3.54: a ratio of 2, below 0.01 from width 200 on.
        (2 * MEAN, 0.3, 200),
        # A fluctuation of 30.1 is below 0.02 from width 1505 on.
        (2 * MEAN, 30.1, 1505),
        (0.004 * MEAN, 0.0001, 1),
    ],
)
def test_the_trusted_width_asks_for_both_numbers(coefficient, kappa, trusted):
    size = ExpansionRange.of((50, 80, 100), MEAN, coefficient, kappa)
    assert size.trusted_width == trusted
    assert size.width == 100
    assert size.depth_over_width == pytest.approx(4 / 50)
    assert size.ratio == pytest.approx(np.linalg.norm(coefficient) / 5 / 100)
    assert size.fluctuation == pytest.approx(kappa / 100)
    assert ("can be trusted here" in size.words) == (trusted <= 100)
    assert f"fluctuates by {np.sqrt(kappa / 100):.2g} of itself" in size.words


@pytest.mark.parametrize(
    ("ratio", "fluctuation", "small"),
    [(0.049, 0.19, True), (0.051, 0.19, False), (0.049, 0.21, False), (0.0, 0.0, True)],
)
def test_a_warning_is_given_past_either_limit(ratio, fluctuation, small):
    size = ExpansionRange(64, 0.1, ratio, fluctuation, 10)
    assert size.small is small
    if small:
        size.warn()
    else:
        with pytest.warns(UserWarning, match="expansion in 1/width is not small"):
            size.warn()


def test_a_mean_of_zero_is_never_trusted():
    assert ExpansionRange.of((10,), 0 * MEAN, MEAN, 0.1).trusted_width == 10**15
