"""Averages over one neuron at several inputs, whatever the activation is like around zero."""

import jax.numpy as jnp
import numpy as np

from finitewidth._base.arrays import Matrix
from finitewidth._base.either import holds_tracer, untraceable
from finitewidth.architecture.activations import Activation
from finitewidth.expectations.four_factors.derivative_moments import (
    HIGHEST_DERIVATIVE,
    DerivativeMoments,
    is_smooth,
)
from finitewidth.expectations.four_factors.followed_averages import followed_four_point, followed_pairs
from finitewidth.expectations.four_factors.four_point import FourPoint, four_point_averages
from finitewidth.expectations.kinked.bent import bent_four_point
from finitewidth.expectations.kinked.piecewise_linear import kinked_four_point, kinked_pairs, slopes_of
from finitewidth.statistics.first_order.bent_neurons import bent_averages
from finitewidth.statistics.first_order.fluctuations import Averages


def neuron_averages(activation: Activation, K: Matrix, tolerance: float, passed_on: bool) -> Averages:
    """Averages over one neuron of two factors with up to five, of four with up to three derivatives.

    Where the slope jumps, only those that the fluctuations need; `passed_on` says whether there is anything
    below for this layer to pass on.
    """
    function = activation.function
    if holds_tracer(K):
        if not is_smooth(function):
            raise untraceable(f"activation {activation.name!r}, with its kinks, at order=1")
        followed = jnp.asarray(K)
        pair = followed_pairs(function, followed, HIGHEST_DERIVATIVE)
        return Averages(pair, followed_four_point(function, followed, tolerance))
    if is_smooth(function):
        moments = DerivativeMoments(function, np.asarray(K), tolerance / 10)
        orders = range(HIGHEST_DERIVATIVE + 1)
        pair = np.array([[moments.pair(k, l) for l in orders] for k in orders])
        return Averages(pair, four_point_averages(function, K, tolerance))
    slopes = slopes_of(function)
    if slopes is not None:
        return Averages(kinked_pairs(slopes, K), kinked_four_point(slopes, K))
    return bent_averages(activation, K, tolerance, passed_on)


def four_factors(activation: Activation, K: Matrix, tolerance: float) -> FourPoint:
    """The averages of four factors alone."""
    function = activation.function
    if is_smooth(function):
        return four_point_averages(function, K, tolerance)
    slopes = slopes_of(function)
    if slopes is not None:
        return kinked_four_point(slopes, K)
    return bent_four_point(function, K, tolerance)
