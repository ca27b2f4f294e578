r"""How the error of kernel regression falls with the number of training points, from the spectrum alone.

With eigenvalues $\lambda_k$ of the kernel under the distribution of inputs, target coefficients $v_k$,
ridge r and n random points, the resolution $\kappa$ solves
$$n = \sum_k \frac{\lambda_k}{\lambda_k+\kappa} + \frac r\kappa .$$
Mode k is learnt to the fraction $L_k = \lambda_k/(\lambda_k+\kappa)$, and the average test error is
$$E = \frac{n}{n-\sum_k L_k^2}\Bigl(\sum_k(1-L_k)^2v_k^2 + s^2\Bigr),$$
with label noise $s^2$; the training error is $(r/n\kappa)^2E$.
"""

import math
from collections.abc import Sequence
from typing import Literal

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.optimize import root_scalar

from finitewidth._base.arrays import AnyArray
from finitewidth.architecture.layer import Layer
from finitewidth.prediction.problem.data import as_targets
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs
from finitewidth.statistics.wide.kernels import kernels
from finitewidth.statistics.wide.mercer_decomposition import mercer


class LearningCurve(eqx.Module):
    """Average squared errors per point, summed over outputs, for each number of training points.

    `learnt` (sizes, modes) is the fraction of each mode that is learnt, and `kappa` the eigenvalue at
    which that is one half.
    """

    sizes: Float[np.ndarray, " sizes"]
    test: Float[np.ndarray, " sizes"]
    train: Float[np.ndarray, " sizes"]
    kappa: Float[np.ndarray, " sizes"]
    learnt: Float[np.ndarray, "sizes modes"]


def learning_curve(
    eigenvalues: Float[AnyArray, " modes"],
    coefficients: Float[AnyArray, "modes out"],
    sizes: Sequence[int] | np.ndarray,
    *,
    ridge: float | int = 0.0,
    noise: float | int = 0.0,
) -> LearningCurve:
    """Predicted learning curve of kernel ridge regression.

    Parameters
    ----------
    eigenvalues, coefficients
        Spectrum of the kernel and the target's coefficients, as `mercer` gives them.
    sizes
        Numbers of training points.
    ridge
        Added to the diagonal of the training kernel.
    noise
        Variance of the label noise, summed over outputs; a part of the target outside the modes counts
        as noise.
    """
    eigenvalues = np.asarray(eigenvalues, dtype=float)
    power = np.sum(np.asarray(coefficients, dtype=float) ** 2, axis=1)
    sizes = np.asarray(sizes, dtype=float)
    if not (sizes > 0).all():
        raise ValueError(f"sizes must be positive, got {sizes.min():g}.")
    if not (ridge >= 0 and noise >= 0):
        raise ValueError(f"ridge and noise must be zero or more, got {ridge} and {noise}.")
    kappa = np.array([resolution(eigenvalues, n, ridge) for n in sizes])
    learnt = eigenvalues / (eigenvalues + kappa[:, None])
    missed = (1 - learnt) ** 2 @ power + noise
    with np.errstate(divide="ignore", invalid="ignore"):
        test = missed * sizes / (sizes - np.sum(learnt**2, axis=1))
        train = np.where(ridge > 0, (ridge / (sizes * kappa)) ** 2 * test, 0.0)
    return LearningCurve(sizes, test, train, kappa, learnt)


def resolution(eigenvalues: Float[AnyArray, " modes"], n: float | int, ridge: float | int = 0.0) -> float:
    """kappa: modes with larger eigenvalues are mostly learnt from n points, those with smaller are not."""
    eigenvalues = np.asarray(eigenvalues, dtype=float)
    if ridge == 0 and n >= len(eigenvalues):
        return 0.0

    def excess(log_kappa: float) -> float:
        kappa = np.exp(log_kappa)
        return float(np.sum(eigenvalues / (eigenvalues + kappa)) + ridge / kappa - n)

    high = np.log((eigenvalues.sum() + ridge) / n)
    low = high - 1.0
    while excess(low) < 0:
        low -= 2.0
    return math.exp(root_scalar(excess, bracket=(low, high), method="brentq", xtol=1e-14).root)


def predicted_learning_curve(
    net: Layer,
    x: ArrayLike,
    y: ArrayLike,
    sizes: Sequence[int] | np.ndarray,
    *,
    kernel: Literal["ntk", "nngp"] = "ntk",
    ridge: float | int = 0.0,
    noise: float | int = 0.0,
) -> LearningCurve:
    """Learning curve of a wide network on random subsets of a data set.

    The data set stands for the distribution of inputs: it should be several times larger than the
    largest of the sizes. `kernel` is "ntk" for trained networks (their mean), "nngp" for the posterior.
    """
    if kernel not in ("ntk", "nngp"):
        raise ValueError(f'kernel must be "ntk" or "nngp", got {kernel!r}.')
    x = as_inputs("x", x, net)
    y = as_targets(y, len(x), x.dtype, "y")
    parts = mercer(getattr(kernels(net, x), kernel))
    return learning_curve(parts.eigenvalues, parts.coefficients(y), sizes, ridge=ridge, noise=noise)
