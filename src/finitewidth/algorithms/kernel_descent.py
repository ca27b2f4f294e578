r"""Training of linear models and of infinitely wide networks, in closed form.

The outputs on the training set A obey $z_A(t) = y + U(t)\,(z_A(0)-y)$, those anywhere else
$z_B(t) = z_B(0) - M(t)\,(z_A(0)-y)$ with the smoother
$M(t) = \Theta_{BA}\,\Theta_{AA}^{-1}\,(1-U(t))$. Both are filters on the spectrum of $\Theta_{AA}$.

A ridge r stands for a penalty $\frac r2|\theta-\theta(0)|^2$ in the loss; it replaces $\Theta_{AA}$ by
$\Theta_{AA}+r$ in the smoother, at any time.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import eigh

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_ridge
from finitewidth._base.either import is_traced_number, traced
from finitewidth._base.linalg.cholesky import LOST, Cholesky, SingularKernelError, factorise
from finitewidth._base.linalg.eigenvalues import largest_eigenvalue
from finitewidth._base.linalg.followed_cholesky import followed_cholesky
from finitewidth._base.linalg.matrix_function import matrix_function
from finitewidth.algorithms.interface import SpectralAlgorithm


class Spectrum(eqx.Module):
    """Eigenvalues, in rising order, and eigenvectors of a training kernel."""

    eigenvalues: Float[AnyArray, " train"]
    eigenvectors: Float[AnyArray, "train train"]

    @classmethod
    def of(cls, kernel: Float[Array, "train train"]) -> "Spectrum":
        """Diagonalise a kernel; rounding below zero is cut off."""
        return cls(*_eigh(kernel))

    @classmethod
    def by_lapack(cls, kernel: Float[AnyArray, "train train"]) -> "Spectrum":
        """The same in NumPy, with one copy of the kernel."""
        return cls.in_place(np.array(kernel, order="F", copy=True))

    @classmethod
    def in_place(cls, matrix: Float[np.ndarray, "train train"]) -> "Spectrum":
        """The same where the kernel was, column by column in memory; LAPACK takes two matrices of scratch."""
        eigenvalues, eigenvectors = eigh(matrix, driver="evd", overwrite_a=True, check_finite=False)
        return cls(np.maximum(eigenvalues, 0), eigenvectors)

    def inverse(self, ridge: float | int = 0.0) -> Float[np.ndarray, " train"]:
        """1 / (eigenvalue + ridge); an error where rounding leaves no digits of the smallest."""
        shifted = np.asarray(self.eigenvalues) + ridge
        if not shifted[0] > LOST * np.finfo(shifted.dtype).eps * shifted[-1]:
            raise SingularKernelError(
                f"the training NTK is singular on these {len(shifted)} points (its eigenvalues lie between "
                f"{self.eigenvalues[0]:.1g} and {self.eigenvalues[-1]:.1g}): the answer is not unique. "
                f"Remove points that repeat others, or pass a ridge above {ridge:.1g}."
            )
        return 1 / shifted

    def on_host(self) -> "Spectrum":
        """The same in NumPy, for work with many small steps."""
        return jax.tree.map(np.asarray, self)

    def residual(
        self, algorithm: SpectralAlgorithm, ridge: float | int | Array = 0.0
    ) -> Float[AnyArray, " train"]:
        """Fraction of each mode's residual that is left on the training set."""
        left = algorithm.residual(self.eigenvalues + ridge)
        if ridge == 0:
            return left
        return (ridge + self.eigenvalues * left) / (self.eigenvalues + ridge)

    def residual_map(
        self, algorithm: SpectralAlgorithm, ridge: float | int = 0.0
    ) -> Float[AnyArray, "train train"]:
        """U(t): what is left of the residual on the training set."""
        return (self.eigenvectors * self.residual(algorithm, ridge)) @ self.eigenvectors.T


@jax.jit
def _eigh(kernel: Float[Array, "train train"]) -> tuple[Array, Array]:
    eigenvalues, eigenvectors = jnp.linalg.eigh(kernel)
    return jnp.maximum(eigenvalues, 0), eigenvectors


class SpectralFilter(NamedTuple):
    """A partly trained model: the gain of each eigenmode."""

    eigenvectors: Float[AnyArray, "train train"]
    gain: Float[AnyArray, " train"]

    def solve(self, right: Float[AnyArray, "train k"]) -> Float[AnyArray, "train k"]:
        r"""$\Theta_{AA}^{-1}(1-U(t))$ times `right`."""
        return self.eigenvectors @ (self.gain[:, None] * (self.eigenvectors.T @ right))


class MatrixFilter(NamedTuple):
    """A trained model whose numbers JAX follows: the filter as one matrix."""

    whole: Float[Array, "train train"]

    def solve(self, right: Float[AnyArray, "train k"]) -> Float[Array, "train k"]:
        r"""$\Theta_{AA}^{-1}(1-U(t))$ times `right`."""
        return self.whole @ right


class FollowedCholesky(NamedTuple):
    """The same at the end of training, by JAX: NaN where the kernel is singular."""

    lower: Float[Array, "train train"]

    def solve(self, right: Float[AnyArray, "train k"]) -> Float[Array, "train k"]:
        """Inverse of the kernel times `right`."""
        return jax.scipy.linalg.cho_solve((self.lower, True), right)


Filter = Cholesky | SpectralFilter | MatrixFilter | FollowedCholesky


def followed_filter(
    kernel: Float[Array, "train train"], algorithm: SpectralAlgorithm, ridge: float | Array
) -> MatrixFilter | FollowedCholesky:
    """The filter of training whose numbers JAX follows, with derivatives in kernel, ridge and algorithm."""
    ridge = jnp.asarray(ridge, kernel.dtype)
    if algorithm.converged:
        shifted = kernel + ridge * jnp.eye(len(kernel), dtype=kernel.dtype)
        return FollowedCholesky(followed_cholesky(shifted))
    algorithm = algorithm.resolved(jnp.linalg.eigvalsh(kernel)[-1] + ridge)
    return MatrixFilter(matrix_function(_gain, (algorithm, ridge), kernel))


def _gain(settings: tuple[SpectralAlgorithm, Array], eigenvalues: Float[Array, "*n"]) -> Float[Array, "*n"]:
    algorithm, ridge = settings
    return jnp.asarray(algorithm.gain(eigenvalues + ridge), eigenvalues.dtype)


def spectral_filter(
    spectrum: Spectrum, algorithm: SpectralAlgorithm, ridge: float | int = 0.0
) -> SpectralFilter:
    """The gains of the modes; the algorithm's open choices are made from the spectrum."""
    if not algorithm.converged:
        algorithm = algorithm.resolved(float(spectrum.eigenvalues[-1]) + ridge)
        return SpectralFilter(spectrum.eigenvectors, algorithm.gain(spectrum.eigenvalues + ridge))
    if algorithm.can_diverge:
        algorithm.resolved(float(spectrum.eigenvalues[-1]) + ridge)
    return SpectralFilter(spectrum.eigenvectors, spectrum.inverse(ridge))


def training_filter(
    kernel: Float[Array, "train train"],
    algorithm: SpectralAlgorithm,
    ridge: float | int | Array = 0.0,
    spectrum: Spectrum | None = None,
) -> Filter:
    r"""What training does with the labels: `solve` applies $(\Theta_{AA}+r)^{-1}(1-U(t))$.

    The end of training needs a Cholesky factorisation only; any other time needs the full spectrum,
    from which the algorithm's open choices are made. A `spectrum` that is known serves both.
    """
    if not is_traced_number(ridge):
        check_ridge(ridge)
    if traced(kernel, algorithm, ridge):
        return followed_filter(kernel, algorithm, ridge)
    ridge = float(ridge)
    if spectrum is not None or not algorithm.converged:
        return spectral_filter(spectrum or Spectrum.of(kernel), algorithm, ridge)
    if algorithm.can_diverge:
        algorithm.resolved(largest_eigenvalue(kernel) + ridge)
    return factorise(kernel, ridge, "the training NTK")


def smoother(
    kernel: Float[Array, "train train"],
    kernel_test_train: Float[Array, "test train"],
    algorithm: SpectralAlgorithm,
    ridge: float | int | Array = 0.0,
    spectrum: Spectrum | None = None,
) -> Float[Array, "test train"]:
    """M(t): the map from training labels to predictions, starting from zero."""
    return smoothed(training_filter(kernel, algorithm, ridge, spectrum), kernel_test_train, spectrum)


def smoothed(
    filtered: Filter,
    kernel_test_train: Float[Array, "test train"],
    spectrum: Spectrum | None = None,
) -> Float[Array, "test train"]:
    """The same from a filter at hand."""
    if isinstance(filtered, MatrixFilter | FollowedCholesky):
        return filtered.solve(kernel_test_train.T).T
    right = kernel_test_train if spectrum is None else np.asarray(kernel_test_train)
    return jnp.asarray(filtered.solve(right.T)).T
