r"""Eigenvalues of random Gram matrices.

The matrix $XX^T/n_0$ of P points with $n_0$ independent standard features has, as both grow with
$a=P/n_0$ fixed, eigenvalues with the density

$$\frac{\sqrt{(\lambda_+-x)(x-\lambda_-)}}{2\pi a\,x},\qquad\lambda_\pm=(1\pm\sqrt a)^2,$$

and a share $1-1/a$ of zeros if a > 1 (Marchenko and Pastur).
"""

import math

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.integrate import quad

from finitewidth._base.checks import check_positive


class MarchenkoPastur(eqx.Module):
    """The limiting law of the eigenvalues of X X^T / n_0.

    Parameters
    ----------
    ratio
        a, points per feature.

    Examples
    --------
    >>> from finitewidth.course.deep_linear_networks.theory import MarchenkoPastur
    >>> law = MarchenkoPastur(0.25)
    >>> law.edges, law.moment(2)
    ((0.25, 2.25), 1.25)
    """

    ratio: float | int = eqx.field(static=True)

    def __init__(self, ratio: float | int):
        check_positive("ratio", ratio)
        self.ratio = float(ratio)

    @property
    def edges(self) -> tuple[float, float]:
        """The smallest and the largest eigenvalue but for zeros."""
        root = math.sqrt(self.ratio)
        return (1 - root) ** 2, (1 + root) ** 2

    @property
    def zeros(self) -> float:
        """The share of eigenvalues that are zero."""
        return max(0.0, 1 - 1 / self.ratio)

    def density(self, x: Float[np.ndarray, "*s"]) -> Float[np.ndarray, "*s"]:
        """The density between the edges, zero elsewhere; its mass is one minus the share of zeros."""
        low, high = self.edges
        x = np.asarray(x, dtype=float)
        inside = (x > low) & (x < high)
        safe = np.where(inside, x, 1.0)
        height = np.sqrt(np.maximum((high - safe) * (safe - low), 0)) / (2 * np.pi * self.ratio * safe)
        return np.where(inside, height, 0.0)

    def cdf(self, x: Float[np.ndarray, " s"]) -> Float[np.ndarray, " s"]:
        """The share of eigenvalues up to x."""
        low, high = self.edges
        middle, half = (low + high) / 2, (high - low) / 2

        def up_to(value: float) -> float:
            if value < 0:
                return 0.0
            # x = middle - half cos(angle) takes the roots at the edges away.
            angle = math.acos(np.clip((middle - value) / half, -1, 1))
            height = lambda u: (half * math.sin(u)) ** 2 / max(middle - half * math.cos(u), 1e-300)
            return self.zeros + quad(height, 0, angle, epsabs=1e-12)[0] / (2 * math.pi * self.ratio)

        return np.array([up_to(float(value)) for value in x])

    def moment(self, power: int) -> float:
        r"""The mean of $x^k$, $\sum_{r<k}\frac{a^r}{r+1}\binom kr\binom{k-1}r$."""
        if power == 0:
            return 1.0
        terms = (
            self.ratio**r / (r + 1) * math.comb(power, r) * math.comb(power - 1, r) for r in range(power)
        )
        return sum(terms)
