"""A network with exponentially many regions: tents folded into tents."""

import jax.numpy as jnp

from finitewidth._base.checks import check_whole
from finitewidth.architecture.dense import Affine
from finitewidth.architecture.mlp import MLP, Params


def sawtooth(folds: int) -> tuple[MLP, Params]:
    """A ReLU network of `folds` hidden layers of two neurons with 2^folds pieces on [0, 1].

    It composes the tent 2 relu(x) - 4 relu(x - 1/2) with itself: 2^(folds - 1) spikes of height one. All
    numbers are exact in binary up to about 50 folds.

    Examples
    --------
    >>> from finitewidth.course.linear_regions.networks import sawtooth
    >>> from finitewidth.measure import regions
    >>> net, params = sawtooth(5)
    >>> regions.line_regions(net, [0.0], [1.0], params=params).pieces
    32
    """
    check_whole("folds", folds)
    tent = jnp.array([2.0, -4.0])
    ends = jnp.array([0.0, -0.5])
    first = Affine(jnp.ones((2, 1)), ends)
    between = [Affine(jnp.tile(tent, (2, 1)), ends)] * (folds - 1)
    net = MLP((2,) * folds, "relu")
    return net, (first, *between, Affine(tent[None], jnp.zeros(1)))
