"""Measured numbers with their standard errors, and what may be computed from them."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from finitewidth._base.estimate import Estimate, Numbers, jackknife, sample_mean

__all__ = [
    "Estimate", "combined", "exact", "jackknife", "propagated", "sample_mean", "share", "stacked", "variance",
]  # fmt: skip


def exact(value: Numbers) -> Estimate:
    """A measurement without statistical error: enumeration or direct integration."""
    value = np.asarray(value, dtype=float)
    return Estimate(value, np.zeros_like(value))


def variance(samples: np.ndarray) -> Estimate:
    """Variance of independent draws along the first axis."""
    centred = samples - samples.mean(axis=0)
    moments = np.stack([centred, centred**2], axis=1)
    return jackknife(moments, lambda mean: mean[1] - mean[0] ** 2)


def share(count: int | np.integer, draws: int, probability: float) -> Estimate:
    """A share of draws, with the standard error that it has if each counts with this probability."""
    return Estimate.of(count / draws, np.sqrt(probability * (1 - probability) / draws))


def stacked(estimates: Sequence[Estimate]) -> Estimate:
    """Estimates of one shape along a new first axis."""
    parts = [(e.value, e.sem, np.broadcast_to(e.dof, e.value.shape)) for e in estimates]
    return Estimate(*(np.stack(part) for part in zip(*parts, strict=True)))


def combined(weights: Sequence[int | float], estimates: Sequence[Estimate]) -> Estimate:
    """A weighted sum of independent estimates of one shape."""
    value = np.sum([w * e.value for w, e in zip(weights, estimates, strict=True)], axis=0)
    parts = np.stack([w * e.sem for w, e in zip(weights, estimates, strict=True)])
    dof = np.stack([np.broadcast_to(e.dof, e.value.shape) for e in estimates])
    return Estimate.of(value, np.sqrt(np.sum(parts**2, axis=0)), _pooled(parts, dof))


def propagated(function: Callable[..., Numbers], *estimates: Estimate) -> Estimate:
    """A function of estimates whose entries are all independent, by linear propagation of their errors.

    Each entry in turn is moved by its standard error in both directions; half the difference that this makes
    is its part of the error.
    """
    values = [np.asarray(e.value, dtype=float) for e in estimates]
    parts, dof = [], []
    for i, estimate in enumerate(estimates):
        freedom = np.broadcast_to(estimate.dof, estimate.value.shape)
        for place in np.ndindex(estimate.value.shape):
            step = np.zeros_like(values[i])
            step[place] = estimate.sem[place]
            ends = [function(*values[:i], values[i] + sign * step, *values[i + 1 :]) for sign in (1, -1)]
            parts.append((np.asarray(ends[0], dtype=float) - ends[1]) / 2)
            dof.append(np.full(np.shape(ends[0]), freedom[place]))
    parts = np.stack(parts)
    return Estimate.of(function(*values), np.sqrt(np.sum(parts**2, axis=0)), _pooled(parts, np.stack(dof)))


def _pooled(parts: Float[np.ndarray, "n *shape"], dof: Float[np.ndarray, "n *shape"]) -> np.ndarray:
    """Degrees of freedom of a sum of independent errors, after Welch and Satterthwaite."""
    square, fourth = np.sum(parts**2, axis=0), np.sum(parts**4 / dof, axis=0)
    return np.divide(square**2, fourth, out=np.full(parts.shape[1:], np.inf), where=fourth > 0)
