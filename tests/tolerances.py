"""One table of tolerances.

A computation that rounds a few dozen times is compared at `ROUNDING`; what a series or an iteration
promises is compared at that promise. `assert_close` measures errors relative to the largest entry
that is expected, so that entries that cancel to zero are held to the scale of their neighbours.
"""

import numpy as np

ROUNDING = {"float32": 2e-5, "float64": 1e-12}

# The accuracies that the package states.
CLOSED_FORM = 1e-10
SERIES = 1e-8

# A kink smoothed over widths w, w/2, w/4 and extrapolated to zero: what the cubic term leaves.
SMOOTHED = 2e-2

# Central differences at step 1e-5 in float64, extrapolated once: 1e-16 / 1e-5 with some room.
DIFFERENCES = 1e-8


def assert_close(actual, expected, tolerance: float | None = None, *, elementwise=False, scale=None):
    """Equal up to `tolerance`, relative to the largest expected entry, to each of them, or to `scale`."""
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    if tolerance is None:
        tolerance = max(ROUNDING.get(a.dtype.name, 0.0) for a in (actual, expected))
    if scale is None:
        scale = np.abs(expected) if elementwise else np.abs(expected).max(initial=0.0)
    error = np.abs(actual - expected)
    bound = tolerance * scale
    worst = np.unravel_index(np.argmax(np.nan_to_num(error - bound, nan=np.inf)), error.shape)
    assert (error <= bound).all(), (
        f"at {worst}: {actual[worst]!r}, expected {expected[worst]!r}; "
        f"error {error[worst]:.2e}, allowed {np.broadcast_to(bound, error.shape)[worst]:.2e}"
    )
