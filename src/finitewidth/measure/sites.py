"""Where a network contracts its activations with weights: what enters, what leaves, what flows back."""

from typing import NamedTuple

import numpy as np


class Site(NamedTuple):
    """One contraction of activations with a parameter, at every point of a specimen.

    `entering` (points, ...) is multiplied with the parameter; `leaving` (points, ...) is the result with its
    bias, the preactivation; `gradient`, of the same shape, is d(sum_ia u_ia f_ia) / d leaving for the
    cotangent u (points, out) that was asked for. `kind` is "dense", "convolution", "attention" or
    "embedding"; `activation` names the function that is applied to what leaves, if it is one that is known.
    """

    name: str
    kind: str
    entering: np.ndarray
    leaving: np.ndarray
    gradient: np.ndarray
    activation: str | None
