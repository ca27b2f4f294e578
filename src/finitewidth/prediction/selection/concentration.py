r"""How close the kernel of n random neurons is to its mean, by the matrix Bernstein inequality.

A sum Z of independent, centred, symmetric random matrices of dimension m, each of norm at most R, with
$\|\sum E X^2\| \le U$, has norm above t with probability at most $2m\,e^{-(t^2/2)/(U+Rt/3)}$. For the
output-layer kernel $\frac1n\sum_k\sigma(w_k\cdot x_a)\sigma(w_k\cdot x_b)$ of m points and $|\sigma|\le1$,
$R = m/n$ and $U = (m/n)\,\|EK\|$.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray

Number = float | int


class Bernstein(NamedTuple):
    """Dimension m, bound R on the norm of one term and bound U on the norm of the variance."""

    dimension: int
    largest: Number
    variance: Number

    def tail(self, distance: Float[AnyArray, " k"]) -> Float[np.ndarray, " k"]:
        """Bound on the probability that the sum is further than this from its mean."""
        t = np.asarray(distance)
        bound = 2 * self.dimension * np.exp(-(t**2) / 2 / (self.variance + self.largest * t / 3))
        return np.minimum(bound, 1.0)

    def distance(self, probability: Number) -> float:
        """The distance that is exceeded with at most this probability."""
        if not 0 < probability <= 1:
            raise ValueError(f"probability must be above 0 and at most 1, got {probability}.")
        log = np.log(2 * self.dimension / probability)
        linear = self.largest * log / 3
        return float(linear + np.sqrt(linear**2 + 2 * self.variance * log))


def kernel_concentration(mean: Float[AnyArray, "train train"], width: int) -> Bernstein:
    """Concentration of the output-layer kernel of `width` neurons with |sigma| <= 1 around its mean.

    Examples
    --------
    >>> import jax, finitewidth as fw
    >>> from finitewidth.prediction.selection.concentration import kernel_concentration
    >>> x = jax.random.normal(jax.random.key(0), (10, 4))
    >>> mean = fw.kernels(fw.MLP((1,), "tanh", 0.0, 1.0), x).nngp
    >>> wide, wider = (kernel_concentration(mean, n).distance(0.05) for n in (10_000, 40_000))
    >>> bool(wider < 0.55 * wide)
    True
    """
    if width < 1:
        raise ValueError(f"width must be at least 1, got {width}.")
    points = len(mean)
    norm = float(np.linalg.norm(np.asarray(mean), 2))
    return Bernstein(points, points / width, points / width * norm)
