"""A small network and points, for stores that take a second."""

import numpy as np

import finitewidth as fw

NET = fw.MLP((1, 1), "relu", 0.1, 2.0)
TILE = 16


def points(n: int = 90, dtype=float) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(n, 3)).astype(dtype)
