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


def jackknife(moments: np.ndarray, function: Callable[[np.ndarray], np.ndarray | np.floating]) -> Estimate:
    """A function of the mean over the first axis, its standard error from leaving out blocks of draws."""
    blocks = np.array_split(moments, min(_BLOCKS, len(moments)))
    sums = np.stack([block.sum(axis=0) for block in blocks])
    sizes = np.array([len(block) for block in blocks])
    total = sums.sum(axis=0)
    left_out = np.stack(
        [function((total - part) / (len(moments) - size)) for part, size in zip(sums, sizes, strict=True)]
    )
    sem = np.sqrt((len(blocks) - 1) * left_out.var(axis=0))
    return Estimate(np.asarray(function(total / len(moments)), dtype=float), np.asarray(sem, dtype=float))


def variance(samples: np.ndarray) -> Estimate:
    """Variance of independent draws along the first axis."""
    centred = samples - samples.mean(axis=0)
    moments = np.stack([centred, centred**2], axis=1)
    return jackknife(moments, lambda mean: mean[1] - mean[0] ** 2)


def stacked(estimates: list[Estimate]) -> Estimate:
    """Estimates of one shape along a new first axis."""
    return Estimate(np.stack([e.value for e in estimates]), np.stack([e.sem for e in estimates]))
