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
    rows = maps.reshape(len(maps), -1)
    rows = rows[np.lexsort(rows.T)]
    # In sorted order, maps that differ by rounding alone need not be neighbours; on a coarse grid they are.
    grid = np.round(rows / (_SAME * max(float(np.abs(rows).max(initial=0.0)), np.finfo(float).tiny)))
    return len(np.unique(grid, axis=0))
