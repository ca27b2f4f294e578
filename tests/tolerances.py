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

# Two routes through solves with kernels, or an iteration run to its end: of moderate condition, of a larger
# one (or printed digits of reference laws), and in single precision.
SOLVE = 1e-10
STIFF_SOLVE = 1e-9
SINGLE_SOLVE = 1e-3

# Tensors of order 1/width: the reference's quadrature, and averages at the default accuracy after several
# layers.
TENSORS = 1e-6
TENSORS_OF_SERIES = 1e-7

# An exact law at a width of 10^6 against its first order; a limit from the last steps of a sequence; a root
# found from a derivative at a critical point; a grid of points for an integral; a power law at finite depth.
FIRST_ORDER = 1e-4
LIMIT = 1e-6
CRITICAL_POINT = 1e-6
DISCRETISATION = 1e-5
ASYMPTOTIC = 1e-2

# A kink smoothed over widths w, w/2, w/4 and extrapolated to zero: what the cubic term leaves.
SMOOTHED = 2e-2

# Central differences at step 1e-5 in float64, extrapolated once: 1e-16 / 1e-5 with some room.
DIFFERENCES = 1e-8

# The same without the extrapolation.
PLAIN_DIFFERENCES = 1e-6


def assert_close(actual, expected, tolerance: float | None = None, *, elementwise=False, scale=None):
    """Equal up to `tolerance`, relative to the largest expected entry, to each of them, or to `scale`.

    Infinite entries must be where they are expected, and are left out of the scale; NaN equals nothing.
    """
    actual, expected = np.asarray(actual), np.asarray(expected)
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    special = ~np.isfinite(actual) | ~np.isfinite(expected)
    if special.any():
        assert (actual == expected)[special].all(), f"{actual[special]}, expected {expected[special]}"
        actual, expected = actual[~special], expected[~special]
        if np.ndim(scale):
            scale = np.broadcast_to(scale, special.shape)[~special]
        if not actual.size:
            return
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
