r"""How a batch is drawn, and how much of the noise of single examples is left in its mean.

For vectors $a_1,\dots,a_m$, one for each point, the mean $\bar a_B$ over a random batch of b points has

$$E[\bar a_B\bar a_B^T]=c_{own}\,\frac1m\sum_ia_ia_i^T+c_{pair}\,\bar a\bar a^T$$

| sampling | $c_{own}$ | $c_{pair}$ |
|---|---|---|
| "without replacement" | $\frac{m-b}{b(m-1)}$ | $1-c_{own}$ |
| "with replacement" | $\frac1b$ | $1-c_{own}$ |
| "bernoulli" | $\frac{1-b/m}b$ | $1$ |

Each step draws a new batch. "bernoulli" takes every point with probability b/m and divides by the mean size
b, not by the size of the batch.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_whole

SAMPLINGS = ("without replacement", "with replacement", "bernoulli")


class BatchFactors(NamedTuple):
    """What the mean over a batch keeps of squares and of pairs."""

    own: float
    """Factor of the mean of $a_ia_i^T$."""
    pair: float
    r"""Factor of $\bar a\bar a^T$."""


def batch_factors(batch_size: int, points: int, sampling: str = "without replacement") -> BatchFactors:
    """How the batch size and the way of drawing enter the noise of a gradient.

    Parameters
    ----------
    batch_size
        Points in a batch, b; for "bernoulli" their mean number.
    points
        Points of the training set, m.
    sampling
        "without replacement", "with replacement" or "bernoulli", in every step anew.

    Examples
    --------
    >>> from finitewidth.course.stochastic_gradients.theory import batch_factors
    >>> [round(batch_factors(50, 100, how).own, 4) for how in ("without replacement", "with replacement")]
    [0.0101, 0.02]
    """
    check_whole("points", points)
    check_whole("batch_size", batch_size)
    if sampling not in SAMPLINGS:
        raise ValueError(f"sampling must be one of {', '.join(SAMPLINGS)}, got {sampling!r}.")
    b, m = int(batch_size), int(points)
    if sampling == "with replacement":
        return BatchFactors(1 / b, 1 - 1 / b)
    if b > m:
        raise ValueError(f"batch_size={b} is larger than the data of {m} points: choose at most {m}.")
    if sampling == "bernoulli":
        return BatchFactors((1 - b / m) / b, 1.0)
    own = (m - b) / (b * (m - 1)) if m > 1 else 0.0
    return BatchFactors(own, 1 - own)


def batch_covariance(
    gradients: Float[AnyArray, "points params"], batch_size: int, sampling: str = "without replacement"
) -> Float[np.ndarray, "params params"]:
    r"""Covariance $C=E[g_Bg_B^T]-\bar g\bar g^T$ of the gradient of a batch, from the gradients of all
    points.

    Parameters
    ----------
    gradients
        Gradients of the loss of every single point, as `finitewidth.measure.gradient_noise` collects them.
    batch_size, sampling
        As in `batch_factors`.
    """
    g = np.asarray(gradients, float)
    own, pair = batch_factors(batch_size, len(g), sampling)
    mean = g.mean(axis=0)
    return own * (g.T @ g) / len(g) + (pair - 1) * np.outer(mean, mean)
