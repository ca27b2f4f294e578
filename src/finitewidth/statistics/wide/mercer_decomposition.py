r"""Mercer's decomposition of a kernel on a data set, and its reproducing kernel Hilbert space.

On N points with equal weights the integral operator $(T f)(x) = \frac1N\sum_i K(x,x_i)f(x_i)$ has
eigenvalues $\lambda_j$ and eigenfunctions $\psi_j$ with $\frac1N\sum_i\psi_j(x_i)\psi_k(x_i)=\delta_{jk}$,
and $K(x,x') = \sum_j\lambda_j\psi_j(x)\psi_j(x')$ on the points. A function $f=\sum_j c_j\psi_j$ has
the squared norm $\|f\|_H^2 = \sum_j c_j^2/\lambda_j$.
"""

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray


class Mercer(eqx.Module):
    """Eigenvalues, in falling order, and eigenfunctions on the points, one per column."""

    eigenvalues: Float[Array, " modes"]
    eigenfunctions: Float[Array, "points modes"]

    def extend(self, kernel_test_points: Float[AnyArray, "test points"]) -> Float[Array, "test modes"]:
        r"""Eigenfunctions anywhere: $\psi_j(x) = \frac{1}{N\lambda_j}\sum_i K(x,x_i)\psi_j(x_i)$."""
        points = self.eigenfunctions.shape[0]
        return jnp.asarray(kernel_test_points) @ self.eigenfunctions / (points * self.eigenvalues)

    def coefficients(self, values: Float[AnyArray, "points out"]) -> Float[Array, "modes out"]:
        """c: the projections of a function on the eigenfunctions."""
        return self.eigenfunctions.T @ jnp.asarray(values) / self.eigenfunctions.shape[0]

    def norm_squared(self, values: Float[AnyArray, "points out"]) -> Float[Array, " out"]:
        """Squared RKHS norm of the smallest function with these values (their part in the kept modes)."""
        return jnp.sum(self.coefficients(values) ** 2 / self.eigenvalues[:, None], axis=0)

    def inner(
        self, f: Float[AnyArray, "points out"], g: Float[AnyArray, "points out"]
    ) -> Float[Array, " out"]:
        """Inner product in the RKHS of two functions given by their values."""
        products = self.coefficients(f) * self.coefficients(g)
        return jnp.sum(products / self.eigenvalues[:, None], axis=0)

    @eqx.filter_jit
    def cumulative_power(self, values: Float[AnyArray, "points out"]) -> Float[Array, " modes"]:
        """Share of a function that its first modes explain: the alignment of kernel and task."""
        power = jnp.sum(self.coefficients(values) ** 2, axis=1)
        return jnp.cumsum(power) / (jnp.sum(jnp.asarray(values) ** 2) / len(values))


def mercer(kernel: Float[AnyArray, "points points"], modes: int | None = None) -> Mercer:
    """Decompose a kernel matrix; modes at the level of rounding are left out.

    Parameters
    ----------
    kernel
        Symmetric positive semidefinite, on all pairs of points.
    modes
        Keep only so many, the largest.

    Examples
    --------
    >>> import jax, jax.numpy as jnp, finitewidth as fw
    >>> from finitewidth.statistics.wide.mercer_decomposition import mercer
    >>> x = jax.random.normal(jax.random.key(0), (30, 2))
    >>> K = fw.kernels(fw.MLP((1, 1), "relu", 0.1, 2.0), x).ntk
    >>> parts = mercer(K)
    >>> rebuilt = (parts.eigenfunctions * parts.eigenvalues) @ parts.eigenfunctions.T
    >>> bool(jnp.allclose(rebuilt, K))
    True
    """
    matrix = jnp.asarray(kernel)
    points = len(matrix)
    if matrix.shape != (points, points):
        raise ValueError(f"kernel must be square, got shape {matrix.shape}.")
    eigenvalues, eigenvectors = (np.asarray(a) for a in jnp.linalg.eigh(matrix))
    rounding = points * float(np.finfo(matrix.dtype).eps) * float(eigenvalues[-1])
    kept = int(np.sum(eigenvalues > rounding))
    if eigenvalues[0] < -10 * rounding:
        raise ValueError(
            f"kernel is not positive semidefinite: its smallest eigenvalue is {eigenvalues[0]:.3g}."
        )
    count = kept if modes is None else min(modes, kept)
    falling = slice(None, points - count - 1 if count < points else None, -1)
    functions = eigenvectors[:, falling] * np.sqrt(points).astype(matrix.dtype)
    return Mercer(jnp.asarray(eigenvalues[falling] / points), jnp.asarray(functions))
