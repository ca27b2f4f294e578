"""The comparison that most tests rest on can fail."""

import numpy as np
import pytest

from tolerances import assert_close

INF, NAN = np.inf, np.nan


@pytest.mark.parametrize(
    ("actual", "expected"),
    [
        ([1.0, 2.0], [1.0, 2.1]),
        ([1.0, 2.0], [1.0, INF]),
        ([1.0, INF], [1.0, -INF]),
        ([7.0, INF], [1.0, INF]),
        ([INF, 1.0], [2.0, 1.0]),
        ([NAN, 1.0], [2.0, 1.0]),
        ([2.0, 1.0], [NAN, 1.0]),
        ([NAN, 1.0], [NAN, 1.0]),
        ([1.0], [1.0, 1.0]),
        (5.0, INF),
    ],
)
def test_what_differs_is_told_apart(actual, expected):
    with pytest.raises(AssertionError):
        assert_close(actual, expected, 1e-3)


@pytest.mark.parametrize("expected", [[1.0, 2.0], [1.0, INF], [-INF, 2.0], 3.0, INF])
def test_what_is_equal_passes(expected):
    nearly = np.asarray(expected, float) * (1 + 1e-4)
    assert_close(nearly, expected, 1e-3)
    assert_close(nearly, expected, 1e-3, elementwise=True)
    assert_close(nearly, expected, 1e-3, scale=10.0)


def test_the_scale_is_the_largest_expected_entry_unless_given():
    assert_close([1.0, 1e-4], [1.0, 0.0], 1e-3)
    with pytest.raises(AssertionError):
        assert_close([1.0, 1e-4], [1.0, 0.0], 1e-3, elementwise=True)
    with pytest.raises(AssertionError):
        assert_close([1.0, 1e-4], [1.0, 0.0], 1e-3, scale=1e-2)
    with pytest.raises(AssertionError):
        assert_close([2.0, INF], [1.0, INF], 1e-3, scale=np.array([1.0, 1e9]))
