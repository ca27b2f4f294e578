r"""Predictions at each training point by networks trained on all the others, without retraining.

With $A = (\Theta+r)^{-1}$ the network trained without point i misses its label by $[Ay]_i/A_{ii}$ on
average over initialisations, with variance $[AKA]_{ii}/A_{ii}^2$. For the posterior with
$A = (K+s^2)^{-1}$ the variance of the label is $1/A_{ii}$.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.linalg.cholesky import Cholesky


class LeftOut(NamedTuple):
    """Mean (train, out) and variance (train) of the prediction at each point left out."""

    mean: Float[np.ndarray, "train out"]
    variance: Float[np.ndarray, " train"]


def trained_left_out(
    factor: Cholesky, nngp: Float[AnyArray, "train train"], y: Float[AnyArray, "train out"]
) -> LeftOut:
    """For networks trained to the end; `factor` is that of the NTK plus ridge."""
    A = factor.inverse()
    diagonal = np.diag(A)
    y = np.asarray(y)
    variance = np.sum((A @ np.asarray(nngp)) * A, axis=1) / diagonal**2
    return LeftOut(y - A @ y / diagonal[:, None], variance)


def posterior_left_out(factor: Cholesky, noise: float | int, y: Float[AnyArray, "train out"]) -> LeftOut:
    """For the posterior of the noise-free outputs; `factor` is that of the NNGP kernel plus noise."""
    A = factor.inverse()
    diagonal = np.diag(A)
    y = np.asarray(y)
    return LeftOut(y - A @ y / diagonal[:, None], np.maximum(1 / diagonal - noise, 0))
