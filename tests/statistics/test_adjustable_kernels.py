"""Kernels for all depths and variances from one program, against kernels of one network at a time."""

import itertools

import jax
import numpy as np
import pytest

import finitewidth as fw
from compilations import count_compilations
from tolerances import CLOSED_FORM, assert_close

X = np.random.default_rng(0).normal(size=(5, 3))
C_W, C_B, DEEPEST = (0.5, 2.0), (0.0, 0.5), 4


def relative_errors(mine, exact):
    """Differences of two kernels, in units of the product of the standard deviations of the two inputs."""
    return [
        np.abs(a - b) / np.sqrt(np.outer(np.diag(b), np.diag(b)))
        for a, b in zip(map(np.asarray, mine), map(np.asarray, exact), strict=True)
    ]


def worst_error(adjustable):
    """Over corners and depths, against kernels with a series that is long enough for all of them."""
    worst = 0.0
    for (W, b), depth in itertools.product(itertools.product(C_W, C_B), (2, DEEPEST)):
        exact = fw.kernels(fw.MLP((7,) * (depth - 1), adjustable.activation, C_b=b, C_W=W), X, terms=256)
        worst = max(worst, np.max(relative_errors(adjustable.at(depth, W, b), exact)))
    return worst


def test_a_closed_form_has_no_error():
    adjustable = fw.adjustable_kernels("relu", X, deepest=DEEPEST, C_W=C_W, C_b=C_B)
    assert adjustable.terms is None
    assert adjustable.error == 0
    assert worst_error(adjustable) < 1e-12


@pytest.mark.parametrize("tolerance", [1e-6, 1e-2])
def test_a_series_is_as_exact_as_it_says(tolerance):
    adjustable = fw.adjustable_kernels("tanh", X, deepest=DEEPEST, C_W=C_W, C_b=C_B, tolerance=tolerance)
    assert adjustable.error <= tolerance
    # The share is that of parallel inputs in one layer; three layers of neurons add up theirs.
    assert worst_error(adjustable) < 3 * adjustable.error


def test_a_linear_network_by_hand():
    adjustable = fw.adjustable_kernels("linear", X, deepest=3, C_W=(0.5, 2.0), C_b=(0.0, 1.0))
    gram, W, b = X @ X.T / 3, 1.5, 0.2
    K1, T1 = b + W * gram, 1 + gram
    K2, T2 = b + W * K1, 1 + K1 + W * T1
    nngp, ntk = adjustable(W, b)
    assert_close(nngp, np.stack([K1, K2, b + W * K2]), CLOSED_FORM)
    assert_close(ntk, np.stack([T1, T2, 1 + K2 + W * T2]), CLOSED_FORM)


def test_fewer_terms_leave_out_more_and_say_so():
    make = lambda most: fw.adjustable_kernels(
        "tanh", X, deepest=2, C_W=(1.0, 4.0), C_b=C_B, tolerance=1e-12, most_terms=most
    )
    few, many = make(16), make(64)
    assert (few.terms, many.terms) == (16, 64)
    exact = fw.kernels(fw.MLP((7,), "tanh", C_b=0.5, C_W=4.0), X, terms=512)
    measured = [np.max(relative_errors(k.at(2, 4.0, 0.5), exact)) for k in (few, many)]
    assert measured[1] < measured[0] < few.error
    assert measured[1] < many.error < few.error


def test_no_move_compiles_anew():
    adjustable = fw.adjustable_kernels("tanh", X, deepest=DEEPEST, C_W=C_W, C_b=C_B)
    adjustable.at(2, 1.0, 0.1)
    with count_compilations() as programs:
        for depth, W, b in ((2, 1.1, 0.2), (4, 0.5, 0.0), (1, 2.0, 0.5)):
            jax.block_until_ready(adjustable.at(depth, W, b))
        assert programs == []
        jax.block_until_ready(fw.adjustable_kernels("tanh", X[:3], deepest=2, C_W=C_W, C_b=C_B)(1.0, 0.1))
    assert programs


def test_a_point_at_zero_has_no_variance_without_biases():
    adjustable = fw.adjustable_kernels("tanh", np.vstack([X, np.zeros(3)]), deepest=3, C_W=C_W, C_b=C_B)
    nngp, ntk = adjustable(1.0, 0.0)
    assert np.isfinite(np.stack([nngp, ntk])).all()
    assert_close(np.asarray(nngp)[:, -1], np.zeros((3, 6)))


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"C_W": (0.0, 1.0)}, r"C_W must be the least and the largest variance, both positive, got \(0.0"),
        ({"C_W": (2.0, 1.0)}, "C_W must be the least and the largest variance"),
        (
            {"C_b": (-0.1, 1)},
            r"C_b must be the least and the largest variance, both zero or positive, got \(-0",
        ),
        ({"deepest": 0}, "deepest must be a whole number of at least 1"),
        ({"tolerance": -1.0}, "tolerance must be a positive number"),
        ({"most_terms": 4}, "most_terms must be a whole number of at least 8"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        fw.adjustable_kernels("tanh", X, **{"deepest": 3, "C_W": C_W, "C_b": C_B, **changes})


def test_a_depth_out_of_reach_is_refused():
    adjustable = fw.adjustable_kernels("relu", X, deepest=3, C_W=C_W, C_b=C_B)
    with pytest.raises(ValueError, match="depth=4 is more than the deepest network here, 3 layers"):
        adjustable.at(4, 1.0, 0.1)
