"""Trained networks with kinks against their linearised partners, where sqrt(width) makes the difference.

In the average over flipped pairs, network less linearised network is free of everything that infinite width
knows; so is the difference of their variances.
"""

import jax
import numpy as np
from jaxtyping import PRNGKeyArray

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.networks import dense_stack
from finitewidth.course._lab.estimate import Estimate, sample_mean, stacked
from finitewidth.course.finite_width_after_training.networks.trained_moments import Ensemble, trained_pairs


def bent_moments(net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Estimate:
    """sqrt(n) times what training with moving slopes adds to mean and variance: (2, test)."""
    width = dense_stack(net).hidden[-1]
    pairs = trained_pairs(net, ensemble, jax.random.fold_in(key, width))
    trained, linear = (ends[..., 0] for ends in pairs)
    centre = trained.mean(axis=(0, 1))
    mean = (trained - linear).mean(axis=1)
    spread = (trained - centre) ** 2 - (linear - linear.mean(axis=(0, 1))) ** 2
    return stacked([sample_mean(mean), sample_mean(spread.mean(axis=1))]).times(np.sqrt(width))


def bent_mean(net: Layer, ensemble: Ensemble, key: PRNGKeyArray) -> Estimate:
    """sqrt(n) times what training with moving slopes adds to the mean of every output: (test * out,)."""
    width = dense_stack(net).hidden[-1]
    pairs = trained_pairs(net, ensemble, jax.random.fold_in(key, width))
    moved = (pairs.trained - pairs.linear).mean(axis=1)
    return sample_mean(moved.reshape(len(moved), -1)).times(np.sqrt(width))
