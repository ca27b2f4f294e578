"""Which rows of patterns and which affine maps are the same."""

import numpy as np
from jaxtyping import Float, Integer

# Maps that agree to this share of the largest are the same.
_SAME = 1e-9


def different_rows(patterns: Integer[np.ndarray, "cells neurons"]) -> tuple[np.ndarray, np.ndarray]:
    """Where each different row first appears, and which of the different rows every row is."""
    rows = np.ascontiguousarray(patterns)
    if not rows.shape[1]:
        return np.arange(min(1, len(rows))), np.zeros(len(rows), int)
    _, first, which = np.unique(
        rows.view(f"V{rows.shape[1] * rows.itemsize}")[:, 0], return_index=True, return_inverse=True
    )
    return first, which


def different_maps(maps: Float[np.ndarray, "cells out coordinates"]) -> int:
    """How many of the affine maps are different, up to rounding."""
    if not len(maps):
        return 0
    rows = maps.reshape(len(maps), -1)
    least = _SAME * float(np.abs(rows).max())
    order = np.argsort(rows, axis=0)
    jumps = np.diff(np.take_along_axis(rows, order, axis=0), axis=0) > least
    # Equal numbers get one label, however rounding has left them.
    labels = np.zeros(rows.shape, int)
    np.put_along_axis(labels, order[1:], np.cumsum(jumps, axis=0), axis=0)
    return len(np.unique(labels, axis=0))
