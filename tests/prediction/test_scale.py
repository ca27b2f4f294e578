"""Inputs, labels, variances and times near the ends of the numbers: exact scaling, or one sentence."""

import numpy as np
import pytest

import finitewidth as fw

# Without biases and with a homogeneous activation the kernels of s x are s^2 times those of x.
FREE = fw.MLP((64, 64), "relu", C_b=0.0, C_W=2.0, lambda_b=0.0)
NET = fw.MLP((64, 64), "relu", C_b=0.1, C_W=2.0)


@pytest.fixture
def data(rng):
    return rng.normal(size=(8, 3)), rng.normal(size=8), rng.normal(size=(5, 3))


@pytest.mark.parametrize(
    ("dtype", "power"), [(float, -400), (float, 400), (np.float32, -45), (np.float32, 45)]
)
def test_the_law_of_a_scale_free_network_is_scale_free(data, dtype, power):
    """By a power of two exactly so: no digit changes."""
    x, y, x_test = (array.astype(dtype) for array in data)
    factor = dtype(2.0) ** power
    law, scaled = fw.predict(FREE, x, y, x_test), fw.predict(FREE, x * factor, y, x_test * factor)
    np.testing.assert_array_equal(scaled.mean, law.mean)
    np.testing.assert_array_equal(scaled.covariance, np.asarray(law.covariance) * factor**2)
    error, other = law.numerical_error, scaled.numerical_error
    assert abs(other.mean / error.mean - 1) < 0.01
    assert abs(other.variance / (error.variance * float(factor) ** 2) - 1) < 0.01


@pytest.mark.parametrize(("dtype", "factor"), [(float, 1e-200), (np.float32, 1e-30)])
def test_inputs_whose_squares_are_lost_are_refused(data, dtype, factor):
    x, y, x_test = data
    x, x_test = (dtype(factor) * array.astype(dtype) for array in (x, x_test))
    with pytest.raises(
        ValueError, match=r"x_train has a row of size .*whose square is lost in float.*Multiply"
    ):
        fw.predict(FREE, x, y, x_test)
    # A bias tells the network where it is: the inputs are then all alike, and that is the problem.
    with pytest.raises(ValueError, match="singular"):
        fw.predict(NET, x, y, x_test)


def test_the_smallest_inputs_that_are_taken_lose_no_digit(data):
    """Half the limit is refused, and at the limit the kernels are exact multiples."""
    x = data[0]
    limit = np.sqrt(np.finfo(float).tiny / np.finfo(float).eps)
    unit = x / np.abs(x).max(axis=1, keepdims=True)
    with pytest.raises(ValueError, match="whose square is lost"):
        fw.kernels(FREE, 0.5 * limit * unit)
    power = 2.0 ** np.ceil(np.log2(limit))
    np.testing.assert_array_equal(fw.kernels(FREE, power * unit).ntk / power**2, fw.kernels(FREE, unit).ntk)


def test_kernels_beyond_all_numbers_are_refused(data):
    x, y, x_test = data
    sentence = r"the kernels leave the range of float64, which ends at 2e\+308: divide the inputs"
    with pytest.raises(ValueError, match=sentence):
        fw.predict(NET, x * 1e160, y, x_test * 1e160)
    with pytest.raises(ValueError, match=sentence):
        fw.predict(fw.MLP((64, 64), "relu", C_b=0.1, C_W=1e308), x, y, x_test)
    with pytest.raises(ValueError, match=sentence):
        fw.kernels(fw.MLP((64, 64), "relu", C_b=0.1, C_W=1e308), x, x_test)
    with pytest.raises(ValueError, match=r"range of float32.*or pass inputs of float64"):
        fw.kernels(NET, (x * 1e25).astype(np.float32))


@pytest.mark.parametrize("dtype", [float, np.float32])
def test_a_flow_of_any_time_ends_at_the_end(data, dtype):
    x, y, x_test = (array.astype(dtype) for array in data)
    end = fw.predict(NET, x, y, x_test, fw.GradientFlow())
    long = fw.predict(NET, x, y, x_test, fw.GradientFlow(1e308))
    np.testing.assert_allclose(long.mean, end.mean, rtol=0, atol=2e-3 if dtype is np.float32 else 1e-11)
    flow = fw.GradientFlow(1e308)
    rates = np.array([0.0, 1e-300, 2.0])
    np.testing.assert_allclose(flow.gain(rates), [1e308, 1e300, 0.5], rtol=1e-7)
    np.testing.assert_array_equal(flow.residual(rates), [1.0, 0.0, 0.0])


def test_networks_do_not_follow_a_flow_for_ever():
    with pytest.raises(ValueError, match=r"a time of 1e\+308 takes inf of them: shorten it"):
        fw.GradientFlow(1e308).descent(3.0)


def test_a_mean_beyond_all_numbers_is_refused():
    """Labels fit into float32, and what is predicted between them does not."""
    x = np.array([[-1.0], [-0.5], [0.5], [1.0]], np.float32)
    y = np.array([-3e38, -3e38, 3e38, 3e38], np.float32)
    with pytest.raises(ValueError, match=r"the mean leaves the range of float32: divide y_train.*float64"):
        fw.predict(NET, x, y, np.array([[10.0]], np.float32), ridge=1e-3)
    double = fw.predict(NET, x.astype(float), y.astype(float), np.array([[10.0]]), ridge=1e-3)
    assert double.mean[0, 0] > 3.4e38


def test_labels_near_the_end_of_numbers_scale_the_mean(data):
    x, y, x_test = data
    law, scaled = fw.predict(NET, x, y, x_test), fw.predict(NET, x, y * 2.0**1000, x_test)
    np.testing.assert_array_equal(scaled.mean, np.asarray(law.mean) * 2.0**1000)
    assert abs(scaled.numerical_error.share / law.numerical_error.share - 1) < 1e-6
