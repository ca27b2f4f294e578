r"""Bounds on the largest eigenvalue of the NTK of random networks without biases.

The mean kernel is below each of its row sums' maximum and its Frobenius norm, and below its trace. For single
networks the trace has mean $E\,\mathrm{tr}$ and a standard deviation of at most
$E\,\mathrm{tr}\sqrt{r-1}$, with $r=E[H^2]/E[H]^2$ of one input (Minkowski). With probability $1-\delta$

$$\lambda_{max}\le E\,\mathrm{tr}\Big(1+\sqrt{(r-1)\tfrac{1-\delta}\delta}\Big)$$

by Cantelli's inequality, and $\lambda_{max}\le E\,\mathrm{tr}/\delta$ by Markov's.
"""

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth.architecture.layer import Layer
from finitewidth.statistics.exact.paths import ntk_moments
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs
from finitewidth.statistics.wide.kernels import kernels


class EigenvalueBounds(NamedTuple):
    """The largest eigenvalue of the NTK on a set of inputs.

    `of_mean` is that of the mean kernel at infinite width, below `row_sum`, `frobenius` and `trace`. `ratio`
    is E[H^2]/E[H]^2 of one input at finite width.
    """

    of_mean: float
    row_sum: float
    frobenius: float
    trace: float
    ratio: float

    def cantelli(self, failure: float) -> float:
        """What single networks exceed with a probability of at most `failure`."""
        _check_probability(failure)
        return self.trace * (1 + math.sqrt((self.ratio - 1) * (1 - failure) / failure))

    def markov(self, failure: float) -> float:
        """The same from the mean of the trace alone."""
        _check_probability(failure)
        return self.trace / failure


def ntk_eigenvalue_bounds(net: Layer, x: ArrayLike) -> EigenvalueBounds:
    """Bounds on the largest eigenvalue of the NTK, from the mean kernel and from its exact moments.

    Parameters
    ----------
    net
        Without biases, with an activation that is linear on either side of zero; one output.
    x
        Inputs (points, features).
    """
    ratio = ntk_moments(net).ratio
    K: Float[np.ndarray, "n n"] = np.asarray(kernels(net, as_inputs("x", x, net)).ntk, dtype=float)
    return EigenvalueBounds(
        float(np.linalg.eigvalsh(K)[-1]),
        float(np.abs(K).sum(axis=1).max()),
        float(np.linalg.norm(K)),
        float(np.trace(K)),
        ratio,
    )


def _check_probability(failure: float) -> None:
    if not 0 < failure < 1:
        raise ValueError(f"failure must be a probability between 0 and 1, got {failure!r}.")
