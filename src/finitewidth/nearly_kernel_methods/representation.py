r"""Representation learning: the trained kernel, the trained weights, and how much deformation is best.

Everything follows from a kernel, a meta kernel and labels, for direct optimisation. The meta kernels given
are those of $\epsilon = 1$; results are coefficients of powers of $\epsilon$, with $q = \tilde k^{-1}y$,
$m_d = \mu_d[q,q]$, $r = \tilde k^{-1}m_A$ and $P_d[S] = S_d-k_{dA}\tilde k^{-1}S_A$:

$$z_d = k_{dA}q+\frac\epsilon2P_d[m]-\frac{\epsilon^2}2P_d[n]+O(\epsilon^3),\qquad n_d = \mu_d[q,r].$$
"""

import warnings
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray, Labels
from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.models.meta_kernel import MetaKernel, as_meta_kernel
from finitewidth.nearly_kernel_methods.algorithm_projectors import Projectors, projectors
from finitewidth.nearly_kernel_methods.prediction import as_columns, as_matrix


class Deformation(NamedTuple):
    r"""Trained outputs as a power series, $z^F+\epsilon z^I+\epsilon^2z^{II}$."""

    z_F: Float[Array, "test out"]
    z_I: Float[Array, "test out"]
    z_II: Float[Array, "test out"]

    def at(self, epsilon: float) -> Float[Array, "test out"]:
        """The series at one epsilon."""
        return self.z_F + epsilon * self.z_I + epsilon**2 * self.z_II


class BestEpsilon(NamedTuple):
    r"""How much feature learning helps on a test set.

    Attributes
    ----------
    epsilon
        $\epsilon^*$, the minimum of the test loss to second order in $\epsilon$.
    refined
        The nearest root of its derivative with the term $3\epsilon^2z^I\cdot z^{II}$ kept as well.
    slope, curvature
        First and second derivative of the test loss at zero; learned features help if the slope is negative.
    """

    epsilon: float
    refined: float
    slope: float
    curvature: float


class TrainedKernel(NamedTuple):
    r"""Kernels after training, one per output: $k^E(W^*)$ to first order, and $k^\sharp = (k+k^E)/2$."""

    effective: Float[Array, "out n1 n2"]
    sharp: Float[Array, "out n1 n2"]


class WeightNorms(NamedTuple):
    r"""Squared lengths of the trained weights $W^F+\epsilon W^I$, one per output.

    Attributes
    ----------
    fixed
        $|W^F|^2$.
    overlap
        $W^F\cdot W^I$; where it is negative, learned features shorten the weights.
    interacting
        $|W^I|^2$.
    """

    fixed: Float[Array, " out"]
    overlap: Float[Array, " out"]
    interacting: Float[Array, " out"]

    def at(self, epsilon: float) -> Float[Array, " out"]:
        r"""$|W^F+\epsilon W^I|^2$."""
        return self.fixed + 2 * epsilon * self.overlap + epsilon**2 * self.interacting


def deformation(
    k_train: Float[AnyArray, "train train"],
    k_test: Float[AnyArray, "test train"],
    mu_train: MetaKernel | Float[AnyArray, "train train train"],
    mu_test: MetaKernel | Float[AnyArray, "test train train"],
    mu_train_test: MetaKernel | Float[AnyArray, "train test train"] | None,
    y: Labels,
    algorithm: SpectralAlgorithm | None = None,
    *,
    ridge: float | int = 0.0,
) -> Deformation:
    """Outputs of direct optimisation to second order in epsilon.

    Parameters
    ----------
    k_train, k_test, mu_train, mu_test, mu_train_test, y, ridge
        As in `nearly_kernel`, the meta kernels at epsilon = 1; only Gauss-Newton needs `mu_train_test`.
    algorithm
        `DirectOptimization()` in the span of the features, or `DirectOptimization("gauss-newton")`, which
        has the same first and another second order.
    """
    path = (DirectOptimization() if algorithm is None else algorithm).second_order()
    k_test = as_matrix("k_test", k_test)
    modes, y, mu_train = _solved(k_train, y, mu_train, ridge)
    n, m = len(y), len(k_test)
    mu_test = as_meta_kernel("mu_test", mu_test, (m, n, n))
    q = modes.solve(y)
    m_train, m_test = (mu.over_features(_pairs(q, q)) for mu in (mu_train, mu_test))
    r = modes.solve(m_train)
    both = _pairs(q, r)
    n_train, n_test = (mu.over_features((both + both.mT) / 2) for mu in (mu_train, mu_test))
    if path == "gauss-newton":
        if mu_train_test is None:
            raise ValueError(
                "mu_train_test is missing: Gauss-Newton leaves the span of the features at second order."
            )
        across = as_meta_kernel("mu_train_test", mu_train_test, (n, m, n))
        n_train = n_train + mu_train.over_meta(_pairs(r, q))
        n_test = n_test + across.over_meta(_pairs(r, q))
    surviving = lambda test, train: test - k_test @ modes.solve(train)
    return Deformation(
        jnp.asarray(k_test @ q),
        jnp.asarray(surviving(m_test, m_train) / 2),
        jnp.asarray(-surviving(n_test, n_train) / 2),
    )


def best_epsilon(
    series: Deformation, y_test: Float[AnyArray, "test out"] | Float[AnyArray, " test"]
) -> BestEpsilon:
    r"""The best amount of feature learning,

    $$\epsilon^* = -\frac{\sum(z^F-y)z^I}{\sum\big[(z^I)^2+2(z^F-y)z^{II}\big]}.$$

    Without a minimum, where the denominator is not positive, both epsilons are NaN and a warning says so.
    """
    y = as_columns("y_test", y_test, len(series.z_F), np.asarray(series.z_F).dtype)
    z_F, z_I, z_II = (np.asarray(z) for z in series)
    if y.shape != z_F.shape:
        raise ValueError(
            f"y_test has {y.shape[1]} outputs and the prediction {z_F.shape[1]}; they must agree."
        )
    gap = z_F - y
    slope = float(np.sum(gap * z_I))
    curvature = float(np.sum(z_I**2 + 2 * gap * z_II))
    if not curvature > 0:
        warnings.warn(
            f"the test loss has curvature {curvature:.3g} in epsilon at zero, so no minimum to second order: "
            "scan epsilon instead.",
            stacklevel=2,
        )
        return BestEpsilon(float("nan"), float("nan"), slope, curvature)
    star = -slope / curvature
    roots = np.roots([3 * float(np.sum(z_I * z_II)), curvature, slope])
    real = roots[np.abs(roots.imag) <= 1e-9 * np.abs(roots)].real
    refined = float(real[np.argmin(np.abs(real - star))]) if len(real) else float("nan")
    return BestEpsilon(star, refined, slope, curvature)


def scan_epsilon(
    series: Deformation,
    y_test: Float[AnyArray, "test out"] | Float[AnyArray, " test"],
    epsilons: Float[AnyArray, " scan"],
) -> Float[np.ndarray, " scan"]:
    """Test loss, half the sum of squares, of the series over a grid of epsilons."""
    y = as_columns("y_test", y_test, len(series.z_F), np.asarray(series.z_F).dtype)
    e = np.asarray(epsilons)[:, None, None]
    z = np.asarray(series.z_F) + e * np.asarray(series.z_I) + e**2 * np.asarray(series.z_II)
    return 0.5 * np.sum((z - y) ** 2, axis=(1, 2))


def trained_kernel(
    k: Float[AnyArray, "n1 n2"], mu_12: MetaKernel, mu_21: MetaKernel, q: Float[AnyArray, "train out"]
) -> TrainedKernel:
    r"""$k^E_{12}(W^*) = k_{12}+\mu_{12}[q]+\mu_{21}[q]+O(\epsilon^2)$, for every algorithm from zero.

    Parameters
    ----------
    k
        Kernel of two sets of points.
    mu_12, mu_21
        Meta kernels, epsilon included, with meta features at points of the first and of the second set, and
        training points last.
    q
        $\\tilde k^{-1}y$, the coefficients of kernel regression.
    """
    k = as_matrix("k", k)
    change = mu_12.along(np.asarray(q)) + mu_21.along(np.asarray(q)).mT
    return TrainedKernel(jnp.asarray(k + change), jnp.asarray(k + change / 2))


def weight_norms(
    k_train: Float[AnyArray, "train train"],
    mu_train: MetaKernel | Float[AnyArray, "train train train"],
    y: Labels,
) -> WeightNorms:
    """How long the weights of direct optimisation are, from kernels alone; meta kernel at epsilon = 1."""
    modes, y, mu_train = _solved(k_train, y, mu_train, 0.0)
    q = modes.solve(y)
    m = mu_train.over_features(_pairs(q, q))
    return WeightNorms(
        jnp.asarray(np.sum(q * y, axis=0)),
        jnp.asarray(-np.sum(q * m, axis=0) / 2),
        jnp.asarray(np.sum(m * modes.solve(m), axis=0) / 4),
    )


def _solved(
    k_train: AnyArray, y: AnyArray, mu_train, ridge: float | int
) -> tuple[Projectors, np.ndarray, MetaKernel]:
    k_train = as_matrix("k_train", k_train)
    n = len(k_train)
    modes = projectors(k_train, DirectOptimization(), ridge)
    return modes, as_columns("y", y, n, k_train.dtype), as_meta_kernel("mu_train", mu_train, (n, n, n))


def _pairs(a: np.ndarray, b: np.ndarray) -> Float[np.ndarray, "out n n"]:
    return np.einsum("ao,bo->oab", a, b)
