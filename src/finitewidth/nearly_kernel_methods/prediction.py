r"""Nearly-kernel methods: the trained quadratic model without features or weights.

A quadratic model $z = W\phi+\frac\epsilon2W\psi W$ trained from zero predicts, to first order in $\epsilon$,

$$z_B = k_{BA}\tilde k^{-1}y
+ P_B\Big[\sum_{12}\mu_{1\,\cdot\,2}\,C_A^{12}\Big] + P_B\Big[\sum_{12}\mu_{\cdot\,12}\,C_B^{12}\Big],\qquad
P_B[S] = S_B-k_{BA}\tilde k^{-1}S_A,$$

where $C_A$ and $C_B$ are the algorithm projectors contracted with two labels. A kernel, a meta kernel and the
algorithm decide; features and weights have gone.
"""

import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray, Labels
from finitewidth._base.checks import as_columns, as_numbers
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.models.meta_kernel import MetaKernel, as_meta_kernel
from finitewidth.nearly_kernel_methods.algorithm_projectors import Projectors, projectors


class NearlyKernel(NamedTuple):
    """A nearly-kernel prediction and where it comes from.

    Attributes
    ----------
    linear
        Kernel regression, plus the starting function if there is one.
    from_trajectory
        The part with Z_A, which depends on the algorithm: features that moved while training went on.
    from_endpoint
        The part with Z_B, the same for every algorithm: meta features at the linear solution.
    """

    linear: Float[Array, "test out"]
    from_trajectory: Float[Array, "test out"]
    from_endpoint: Float[Array, "test out"]

    @property
    def correction(self) -> Float[Array, "test out"]:
        """What learned features change, of first order in epsilon."""
        return self.from_trajectory + self.from_endpoint

    @property
    def prediction(self) -> Float[Array, "test out"]:
        """Outputs of the trained model."""
        return self.linear + self.correction

    @property
    def share(self) -> Float[Array, "test out"]:
        """How much of each output came from learned features: |correction| / (|linear| + |correction|)."""
        learned, fixed = jnp.abs(self.correction), jnp.abs(self.linear)
        return learned / jnp.maximum(learned + fixed, jnp.finfo(learned.dtype).tiny)


def nearly_kernel(
    k_train: Float[AnyArray, "train train"],
    k_test: Float[AnyArray, "test train"],
    mu_train: MetaKernel | Float[AnyArray, "train train train"],
    mu_test: MetaKernel | Float[AnyArray, "test train train"],
    mu_train_test: MetaKernel | Float[AnyArray, "train test train"],
    y: Labels,
    algorithm: SpectralAlgorithm | None = None,
    *,
    start: tuple[AnyArray, AnyArray] | None = None,
    ridge: float | int = 0.0,
) -> NearlyKernel:
    r"""Predictions of a quadratic model trained to the end, to first order in its nonlinearity.

    Parameters
    ----------
    k_train, k_test
        Kernel of the training points, and of test with training points.
    mu_train, mu_test, mu_train_test
        Meta kernel with $\epsilon$ included, as arrays or as `MetaKernel` objects. First index: the point of
        the meta features, which is a test point in `mu_test` and a training point in the other two; the
        second index of `mu_train_test` is a test point.
    y
        Labels, one column per output.
    algorithm
        `GradientDescent(eta)` at any stable step (the default, eta="auto"), `GradientFlow()`, or
        `DirectOptimization(solution, step)`.
    start
        Outputs of the model before training on (training, test) points. Kernels and meta kernels must then
        be those of the start, built from the effective features there.
    ridge
        A penalty on the weights: added to the diagonal of k_train, as a private feature of every training
        point.

    Returns
    -------
    NearlyKernel
        `prediction`, and its parts `linear` and `correction`.

    Examples
    --------
    >>> import numpy as np
    >>> import finitewidth as fw
    >>> phi = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [1.0, 1.0, 0.0]])
    >>> psi = 0.1 * np.ones((3, 3, 3))
    >>> k, mu = phi @ phi.T, np.einsum("bj,ajk,ck->abc", phi, psi, phi)
    >>> A, B = slice(0, 2), slice(2, 3)
    >>> machine = fw.nearly_kernel(k[A, A], k[B, A], mu[A, A, A], mu[B, A, A], mu[A, B, A], np.ones(2))
    >>> machine.linear.shape
    (1, 1)
    """
    k_test = as_matrix("k_test", k_test)
    if start is not None and len(start) != 2:
        raise ValueError(f"start must hold outputs on (training, test) points, got {len(start)} arrays.")
    begin, begin_test = (None, None) if start is None else start
    fit = fit_nearly_kernel(k_train, mu_train, y, algorithm, start=begin, ridge=ridge)
    machine = fit.predict(k_test, mu_test, mu_train_test, begin_test)
    warn_if_large(machine)
    return machine


class NearlyKernelFit(NamedTuple):
    """What the training points contribute to every prediction: computed once, asked many times."""

    modes: Projectors
    q: Float[np.ndarray, "train out"]
    C_A: Float[np.ndarray, "out train train"]
    C_B: Float[np.ndarray, "out train train"]
    trajectory: Float[np.ndarray, "train out"]
    endpoint: Float[np.ndarray, "train out"]

    def predict(
        self,
        k_test: Float[AnyArray, "test train"],
        mu_test: MetaKernel | Float[AnyArray, "test train train"],
        mu_train_test: MetaKernel | Float[AnyArray, "train test train"],
        start: AnyArray | None = None,
    ) -> NearlyKernel:
        """Predictions wherever the kernels are given; `start` holds outputs before training there."""
        k_test = as_matrix("k_test", k_test)
        n, m = len(self.q), len(k_test)
        if k_test.shape[1] != n:
            raise ValueError(
                f"k_test has shape {k_test.shape}; its columns are the {n} training points of k_train."
            )
        mu_test = as_meta_kernel("mu_test", mu_test, (m, n, n))
        mu_train_test = as_meta_kernel("mu_train_test", mu_train_test, (n, m, n))
        linear = k_test @ self.q
        trajectory = mu_train_test.over_meta(self.C_A) - k_test @ self.trajectory
        endpoint = mu_test.over_features(self.C_B) - k_test @ self.endpoint
        if start is not None:
            linear = linear + _as_outputs("start on the test points", start, m, self.q)
        return NearlyKernel(jnp.asarray(linear), jnp.asarray(trajectory), jnp.asarray(endpoint))


def fit_nearly_kernel(
    k_train: Float[AnyArray, "train train"],
    mu_train: MetaKernel | Float[AnyArray, "train train train"],
    y: Labels,
    algorithm: SpectralAlgorithm | None = None,
    *,
    start: AnyArray | None = None,
    ridge: float | int = 0.0,
) -> NearlyKernelFit:
    """The part of `nearly_kernel` that needs no test points; `start` holds outputs on the training points."""
    k_train = as_matrix("k_train", k_train)
    n = len(k_train)
    if k_train.shape != (n, n):
        raise ValueError(f"k_train must be square, got shape {k_train.shape}.")
    skew = np.abs(k_train - k_train.T).max(initial=0.0)
    if skew > 1e3 * np.finfo(k_train.dtype).eps * np.abs(k_train).max(initial=0.0):
        raise ValueError(f"k_train must be symmetric, but differs from its transpose by {skew:.3g}.")
    y = as_columns("y", y, n, k_train.dtype)
    mu_train = as_meta_kernel("mu_train", mu_train, (n, n, n))
    if start is not None:
        y = y - _as_outputs("start on the training points", start, n, y)
    modes = projectors(k_train, GradientDescent() if algorithm is None else algorithm, ridge)
    C_A, C_B = modes.contract_A(y), modes.contract_B(y)
    # The meta kernel sees the symmetric part only, which has rank one.
    C_B = (C_B + C_B.mT) / 2
    trajectory, endpoint = mu_train.over_meta(C_A), mu_train.over_features(C_B)
    return NearlyKernelFit(modes, modes.solve(y), C_A, C_B, modes.solve(trajectory), modes.solve(endpoint))


def warn_if_large(machine: NearlyKernel) -> None:
    """Warn where learned features are no small correction any more, with the number."""
    correction, linear = (float(jnp.linalg.norm(part)) for part in (machine.correction, machine.linear))
    if correction > linear > 0:
        warnings.warn(
            f"the quadratic correction is {correction / linear:.3g} times as large as the linear prediction: "
            "the expansion in epsilon is not small, lower epsilon.",
            stacklevel=3,
        )


def _as_outputs(
    name: str, values: AnyArray, points: int, like: np.ndarray
) -> Float[np.ndarray, "points out"]:
    outputs = as_columns(name, values, points, like.dtype)
    if outputs.shape[1] != like.shape[1]:
        raise ValueError(f"{name} has {outputs.shape[1]} outputs and y has {like.shape[1]}; they must agree.")
    return outputs


def as_matrix(name: str, kernel: AnyArray) -> Float[np.ndarray, "n m"]:
    """A kernel as a finite matrix of floating numbers."""
    matrix = np.asarray(as_numbers(name, kernel))
    if not np.issubdtype(matrix.dtype, np.floating):
        matrix = matrix.astype(float)
    if matrix.ndim != 2 or 0 in matrix.shape:
        raise ValueError(f"{name} must be a matrix with at least one row, got shape {matrix.shape}.")
    if not np.isfinite(matrix).all():
        raise ValueError(f"{name} holds NaN or infinite values.")
    return matrix
