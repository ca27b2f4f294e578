r"""Training of linear models and of infinitely wide networks, in closed form.

The outputs on the training set A obey $z_A(t) = y + U(t)\,(z_A(0)-y)$, those anywhere else
$z_B(t) = z_B(0) - M(t)\,(z_A(0)-y)$ with the smoother
$M(t) = \Theta_{BA}\,\Theta_{AA}^{-1}\,(1-U(t))$. Both are filters on the spectrum of $\Theta_{AA}$.
"""

import equinox as eqx
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
from jaxtyping import Array, Float
from scipy.sparse.linalg import eigsh

from finitewidth.dynamics.algorithms import SpectralAlgorithm

_SINGULAR = 1e-13


class Spectrum(eqx.Module):
    """Eigenvalues, in rising order, and eigenvectors of a training kernel."""

    eigenvalues: Float[Array, " train"]
    eigenvectors: Float[Array, "train train"]

    @classmethod
    def of(cls, kernel: Float[Array, "train train"]) -> "Spectrum":
        """Diagonalise a kernel; rounding below zero is cut off."""
        eigenvalues, eigenvectors = jnp.linalg.eigh(kernel)
        return cls(jnp.maximum(eigenvalues, 0), eigenvectors)

    def smoother(
        self, algorithm: SpectralAlgorithm, kernel_test_train: Float[Array, "test train"]
    ) -> Float[Array, "test train"]:
        """M(t): the map from training labels to predictions, starting from zero."""
        gain = algorithm.gain(self.eigenvalues)
        return ((kernel_test_train @ self.eigenvectors) * gain) @ self.eigenvectors.T

    def residual_map(self, algorithm: SpectralAlgorithm) -> Float[Array, "train train"]:
        """U(t): what is left of the residual on the training set."""
        return (self.eigenvectors * algorithm.residual(self.eigenvalues)) @ self.eigenvectors.T


def interpolator(
    kernel: Float[Array, "train train"], kernel_test_train: Float[Array, "test train"]
) -> Float[Array, "test train"]:
    """M at the end of training, by Cholesky factorisation instead of a full spectrum."""
    factor = jax.scipy.linalg.cho_factor(kernel, lower=True)
    return jax.scipy.linalg.cho_solve(factor, kernel_test_train.T).T


def extreme_eigenvalues(kernel: Float[Array, "n n"]) -> tuple[float, float]:
    """Smallest and largest eigenvalue."""
    matrix = np.asarray(kernel)
    if len(matrix) <= 500:
        values = np.linalg.eigvalsh(matrix)
        return float(values[0]), float(values[-1])
    start = np.random.default_rng(0).normal(size=len(matrix))
    top = float(eigsh(matrix, k=1, v0=start, return_eigenvectors=False)[0])
    bottom = top - float(
        eigsh(top * np.eye(len(matrix)) - matrix, k=1, v0=start, return_eigenvectors=False, tol=1e-3)[0]
    )
    return bottom, top


def nearly_equal_pair(kernel: Float[Array, "n n"]) -> tuple[int, int] | None:
    """Two points that the kernel cannot tell apart, if there are any."""
    matrix = np.asarray(kernel, dtype=float)
    scale = np.sqrt(np.diag(matrix))
    gap = 1 - np.abs(matrix / np.outer(scale, scale))
    np.fill_diagonal(gap, np.inf)
    i, j = np.unravel_index(np.argmin(gap), gap.shape)
    return (int(min(i, j)), int(max(i, j))) if gap[i, j] < _SINGULAR else None
