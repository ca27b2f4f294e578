r"""Algorithm projectors: what a nearly-kernel machine remembers of how it was trained.

The tensors $Z_A$, $Z_B$ and the inverting tensor $X_\parallel$ of four training points are diagonal in the
eigenbasis of the training kernel $\tilde k$: with the eigenvalues of the two modes that meet,

$$X = \frac{1}{\lambda_1+\lambda_2-\eta\lambda_1\lambda_2},\qquad
Z_A = \frac{1-\eta\lambda_1}{\lambda_1}X,\qquad Z_B = Z_A+\frac\eta2X$$

for gradient descent, their limit $\eta\to0$ for gradient flow, and $Z_A = c/(\lambda_1\lambda_2)$,
$Z_B = 1/(2\lambda_1\lambda_2)$ for direct optimisation. The first mode is that of the residual, which sits at
the meta-feature point; the second that of the residual accumulated so far. Contracted with labels they are
matrices, so that nothing with four points is ever built.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_ridge
from finitewidth._base.linalg.cholesky import LOST, SingularKernelError, singular_sentence
from finitewidth.algorithms.interface import SpectralAlgorithm


class Projectors(NamedTuple):
    r"""$Z_A$ and $Z_B$ over all pairs of modes of a training kernel."""

    eigenvalues: Float[np.ndarray, " train"]
    eigenvectors: Float[np.ndarray, "train train"]
    Z_A: Float[np.ndarray, "train train"]
    Z_B: Float[np.ndarray, "train train"]

    def solve(self, right: Float[AnyArray, "train k"]) -> Float[np.ndarray, "train k"]:
        r"""$\tilde k^{-1}$ times `right`."""
        V = self.eigenvectors
        return V @ ((V.T @ np.asarray(right)) / self.eigenvalues[:, None])

    def contract_A(self, y: Float[AnyArray, "train out"]) -> Float[np.ndarray, "out train train"]:
        r"""$\sum_{34} Z_A^{1234}\,y_3y_4$, for each output."""
        return self._contract(self.Z_A, y)

    def contract_B(self, y: Float[AnyArray, "train out"]) -> Float[np.ndarray, "out train train"]:
        r"""$\sum_{34} Z_B^{1234}\,y_3y_4$, for each output."""
        return self._contract(self.Z_B, y)

    def _contract(self, Z: np.ndarray, y: AnyArray) -> Float[np.ndarray, "out train train"]:
        V = self.eigenvectors
        modes = (V.T @ np.asarray(y)).T
        return V @ (Z * modes[:, :, None] * modes[:, None, :]) @ V.T


def projectors(
    k_train: Float[AnyArray, "train train"], algorithm: SpectralAlgorithm, ridge: float | int = 0.0
) -> Projectors:
    """The projectors of an algorithm that runs to the end, on one training kernel.

    Parameters
    ----------
    k_train
        Symmetric, positive definite.
    algorithm
        `GradientDescent(eta)`, `GradientFlow()` or `DirectOptimization(solution, step)`.
    ridge
        Added to the diagonal.
    """
    check_ridge(ridge)
    if not algorithm.converged:
        raise ValueError(
            f"the nearly-kernel formula describes training run to the end, got {algorithm!r}: "
            "leave out steps or time, or follow the dual dynamics."
        )
    kernel = np.asarray(k_train)
    eigenvalues, V = np.linalg.eigh(kernel)
    eigenvalues = eigenvalues + kernel.dtype.type(ridge)
    reciprocal = max(float(eigenvalues[0] / eigenvalues[-1]), 0.0) if eigenvalues[-1] > 0 else 0.0
    if not reciprocal > np.finfo(kernel.dtype).eps * LOST:
        raise SingularKernelError(singular_sentence(kernel, ridge, reciprocal, "k_train"))
    Z_A, Z_B = pair_projectors(eigenvalues[:, None], eigenvalues, algorithm.resolved(float(eigenvalues[-1])))
    return Projectors(eigenvalues, V, np.asarray(Z_A), np.asarray(Z_B))


def pair_projectors(
    l1: Float[AnyArray, "..."] | float, l2: Float[AnyArray, "..."] | float, algorithm: SpectralAlgorithm
) -> tuple[Array, Array]:
    r"""$Z_A(\lambda_1,\lambda_2)$ and $Z_B(\lambda_1,\lambda_2)$ of one pair of modes."""
    return algorithm.projectors(jnp.asarray(l1), jnp.asarray(l2))
