"""Measured numbers with their standard errors."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

_BLOCKS = 40


class Estimate(NamedTuple):
    """A measured array and its standard error, zero where the measurement is exact."""

    value: Float[np.ndarray, "*shape"]
    sem: Float[np.ndarray, "*shape"]


def exact(value: np.ndarray | float) -> Estimate:
    """A measurement without statistical error: enumeration or direct integration."""
    value = np.asarray(value, dtype=float)
    return Estimate(value, np.zeros_like(value))


def sample_mean(samples: np.ndarray) -> Estimate:
    """Mean over the first axis, whose entries are independent draws."""
    sem = samples.std(axis=0, ddof=1) / np.sqrt(len(samples))
    return Estimate(np.asarray(samples.mean(axis=0), dtype=float), np.asarray(sem, dtype=float))


def jackknife(samples: np.ndarray, function: Callable[[np.ndarray], np.ndarray]) -> Estimate:
    """A function of all samples, with the standard error from leaving out one block at a time."""
    blocks = np.array_split(np.arange(len(samples)), min(_BLOCKS, len(samples)))
    left_out = np.stack([function(np.delete(samples, block, axis=0)) for block in blocks])
    sem = np.sqrt((len(blocks) - 1) * left_out.var(axis=0))
    return Estimate(np.asarray(function(samples), dtype=float), np.asarray(sem, dtype=float))


def stacked(estimates: list[Estimate]) -> Estimate:
    """Estimates of one shape along a new first axis."""
    return Estimate(np.stack([e.value for e in estimates]), np.stack([e.sem for e in estimates]))
