"""The whole spectrum of an operator: its density and its trace, from random vectors.

A random vector sees a spectrum as a whole. It sees single large eigenvalues too, but by chance: they make
most of the noise. So the largest are found and taken out first, and the random vectors measure the rest.
"""

from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Float, PRNGKeyArray
from scipy.sparse.linalg import LinearOperator

from finitewidth._base.checks import check_key, check_whole
from finitewidth._base.estimate import Estimate, sample_mean
from finitewidth._base.linalg.lanczos import quadrature
from finitewidth.measure.loss.operators import SymmetricOperator
from finitewidth.measure.loss.spectrum import Eigenpairs, eigenpairs


class SpectralDensity(NamedTuple):
    """Where the eigenvalues of a matrix are: some exactly, the others by quadrature.

    `outliers` (k,) are the eigenvalues that were taken out. Every probe puts `weights` (probes, steps) at
    `nodes` (probes, steps): shares of all eigenvalues, 1 - k / size in sum. `size` counts all
    eigenvalues, and `products` the products with the matrix.
    """

    outliers: Float[np.ndarray, " k"]
    nodes: Float[np.ndarray, "probes steps"]
    weights: Float[np.ndarray, "probes steps"]
    size: int
    products: int

    def share_below(self, values: Float[np.ndarray, " m"]) -> Estimate:
        """The share of eigenvalues at most as large as each value, with its standard error."""
        values = np.asarray(values, dtype=float)
        below = np.sum(self.weights[:, None] * (self.nodes[:, None] <= values[:, None]), axis=2)
        exact = np.sum(self.outliers <= values[:, None], axis=1) / self.size
        return sample_mean(below).plus(exact)

    def smoothed(self, values: Float[np.ndarray, " m"], width: float) -> Estimate:
        """The density at each value, every eigenvalue a Gaussian of some width, with its standard error."""

        def bump(distance: np.ndarray) -> np.ndarray:
            return np.exp(-0.5 * (distance / width) ** 2) / (width * np.sqrt(2 * np.pi))

        values = np.asarray(values, dtype=float)
        rest = np.sum(self.weights[:, None] * bump(values[:, None] - self.nodes[:, None]), axis=2)
        exact = np.sum(bump(values[:, None] - self.outliers), axis=1) / self.size
        return sample_mean(rest).plus(exact)

    def moment(self, power: int) -> Estimate:
        """The mean of all eigenvalues to a power, with its standard error."""
        exact = np.sum(self.outliers**power) / self.size
        return sample_mean(np.sum(self.weights * self.nodes**power, axis=1)).plus(exact)

    @property
    def wasserstein_error(self) -> float:
        """How far chance has moved the eigenvalues, on average: the integral of errors of share_below."""
        edges = np.unique(self.nodes)
        return float(np.sum(self.share_below(edges[:-1]).sem * np.diff(edges)))


def spectral_density(
    operator: LinearOperator,
    *,
    key: PRNGKeyArray,
    probes: int = 8,
    steps: int = 40,
    outliers: int | Eigenpairs = 10,
) -> SpectralDensity:
    """The density of a symmetric operator's spectrum, by stochastic Lanczos quadrature.

    Parameters
    ----------
    operator
        Such as `hessian(s)`.
    key
        Draws the random signs of the probes.
    probes
        Random vectors: the error falls with the root of their number.
    steps
        Products for each: so many nodes has its quadrature.
    outliers
        How many eigenvalues, the largest in size, to find and take out first, or the pairs themselves.
    """
    check_whole("steps", steps)
    taken, rest, draws = _without(operator, key, probes, outliers)
    pairs = [quadrature(rest.matvec, probe, steps) for probe in draws]
    nodes, weights = (np.array(part) for part in zip(*pairs, strict=True))
    size = operator.shape[0]
    # A random vector counts the eigenvalues that are left up to chance; their number is known.
    weights *= (size - len(taken.values)) / size / weights.sum(axis=1, keepdims=True)
    return SpectralDensity(taken.values, nodes, weights, size, taken.products + rest.products)


def trace(
    operator: LinearOperator, *, key: PRNGKeyArray, probes: int = 32, outliers: int | Eigenpairs = 10
) -> Estimate:
    """The trace of a symmetric operator, with its standard error, from one product for each probe.

    The eigenvalues that are taken out first, the largest in size, are summed exactly.
    """
    taken, rest, draws = _without(operator, key, probes, outliers)
    samples = np.array([float(probe @ rest.matvec(probe)) for probe in draws])
    return sample_mean(samples).plus(float(np.sum(taken.values)))


def _without(
    operator: LinearOperator, key: PRNGKeyArray, probes: int, outliers: int | Eigenpairs
) -> tuple[Eigenpairs, SymmetricOperator, list[np.ndarray]]:
    """Some eigenpairs, the operator without them, and random signs without their share in them."""
    check_key(key)
    check_whole("probes", probes, least=2)
    size, dtype = operator.shape[0], operator.dtype
    if isinstance(outliers, Eigenpairs):
        taken = outliers
    elif outliers:
        taken = eigenpairs(operator, outliers, "magnitude")
    else:
        taken = Eigenpairs(np.zeros(0), np.zeros((size, 0), dtype), np.zeros(0), 0)
    vectors = taken.vectors.astype(dtype)

    def outside(v: np.ndarray) -> np.ndarray:
        return v - vectors @ (vectors.T @ v)

    draws = [np.asarray(jax.random.rademacher(one, (size,)), dtype) for one in jax.random.split(key, probes)]
    # It only meets vectors that are outside already.
    rest = SymmetricOperator(lambda v: outside(operator.matvec(v)), size, dtype)
    return taken, rest, [outside(draw) for draw in draws]
