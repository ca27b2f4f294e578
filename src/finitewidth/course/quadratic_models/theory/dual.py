r"""Gradient descent on a quadratic model in sample space: outputs and effective kernel, without weights.

$$z_d\leftarrow z_d-\eta\,k^E_{dA}e+\frac{\eta^2}2\,\mu_{d}[e,e],\qquad
k^E_{12}\leftarrow k^E_{12}-\eta\,(\mu_{12}[e]+\mu_{21}[e])$$

with the residual $e = z_A-y$. With the dressed $\mu^E$ in place of $\mu$, and with
$\eta^2\epsilon^2(\psi_1g)\cdot(\psi_2g)$, $g = \sum_a\phi^E_ae_a$, added to the kernel, both steps are exact.
Without, what is dropped is of second order in $\epsilon$, at all times together.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray, Labels
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.architecture.models.meta_kernel import MetaKernel, as_meta_kernel
from finitewidth.nearly_kernel_methods.prediction import as_columns, as_matrix

NEGLECTED = (
    "second order in epsilon: (eta^2/2) (mu^E - mu) e e of the outputs, eta (mu^E - mu) e and "
    "eta^2 eps^2 (psi g).(psi g) of the effective kernel"
)


class DualTrajectory(NamedTuple):
    """Outputs of every step, and the effective kernel at the end.

    Attributes
    ----------
    train, test
        Outputs before training and after every step.
    kernel_train, kernel_test
        Effective kernel at the end, for every output.
    moved
        Largest relative change of the training kernel on the way; what is dropped is of its square.
    neglected
        What the dynamics leaves out, in words.
    """

    train: Float[np.ndarray, "times train out"]
    test: Float[np.ndarray, "times test out"]
    kernel_train: Float[np.ndarray, "out train train"]
    kernel_test: Float[np.ndarray, "out test train"]
    moved: float
    neglected: str


def output_step(
    kernel: Float[AnyArray, "out n train"], mu: MetaKernel, e: Float[AnyArray, "train out"], eta: float
) -> Float[np.ndarray, "n out"]:
    r"""$-\eta\,k^Ee+\frac{\eta^2}2\mu[e,e]$, the change of the outputs in one step."""
    e = np.asarray(e)
    linear = np.einsum("ona,ao->no", np.asarray(kernel), e)
    return -eta * linear + eta**2 / 2 * mu.over_features(np.einsum("ao,bo->oab", e, e))


def kernel_step(
    mu_12: MetaKernel, mu_21: MetaKernel, e: Float[AnyArray, "train out"], eta: float
) -> Float[np.ndarray, "out n1 n2"]:
    r"""$-\eta\,(\mu_{12}[e]+\mu_{21}[e])$, the change of the effective kernel in one step."""
    return -eta * (mu_12.along(e) + mu_21.along(e).mT)


def dual_descent(
    k_train: Float[AnyArray, "train train"],
    k_test: Float[AnyArray, "test train"],
    mu_train: MetaKernel | Float[AnyArray, "train train train"],
    mu_test: MetaKernel | Float[AnyArray, "test train train"],
    mu_train_test: MetaKernel | Float[AnyArray, "train test train"],
    y: Labels,
    algorithm: GradientDescent,
) -> DualTrajectory:
    """Follow outputs and effective kernel from zero weights for a number of steps.

    Parameters
    ----------
    k_train, k_test, mu_train, mu_test, mu_train_test, y
        As in `nearly_kernel`.
    algorithm
        `GradientDescent(eta, steps)` with finitely many steps.
    """
    k_train, k_test = as_matrix("k_train", k_train), as_matrix("k_test", k_test)
    n, m = len(k_train), len(k_test)
    y = as_columns("y", y, n, k_train.dtype)
    mu_train = as_meta_kernel("mu_train", mu_train, (n, n, n))
    mu_test = as_meta_kernel("mu_test", mu_test, (m, n, n))
    mu_train_test = as_meta_kernel("mu_train_test", mu_train_test, (n, m, n))
    if algorithm.converged:
        raise ValueError("the dual dynamics needs a number of steps: use GradientDescent(eta, steps).")
    eta = float(algorithm.resolved(float(np.linalg.eigvalsh(k_train)[-1])).eta)
    z, z_test = [np.zeros_like(y)], [np.zeros((m, y.shape[1]), y.dtype)]
    k, k_out = (np.repeat(kernel[None], y.shape[1], axis=0) for kernel in (k_train, k_test))
    moved = 0.0
    for _ in range(int(algorithm.steps)):
        e = z[-1] - y
        z.append(z[-1] + output_step(k, mu_train, e, eta))
        z_test.append(z_test[-1] + output_step(k_out, mu_test, e, eta))
        k = k + kernel_step(mu_train, mu_train, e, eta)
        k_out = k_out + kernel_step(mu_test, mu_train_test, e, eta)
        moved = max(moved, float(np.abs(k - k_train).max() / np.abs(k_train).max()))
    return DualTrajectory(np.stack(z), np.stack(z_test), k, k_out, moved, NEGLECTED)
