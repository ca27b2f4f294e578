"""The matrices of curvature of a specimen, known by their products with vectors."""

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.sparse.linalg import LinearOperator

from finitewidth.measure.specimen import Specimen


class SymmetricOperator(LinearOperator):
    """A symmetric matrix that is known by its products with vectors; `products` counts them.

    It is a `scipy.sparse.linalg.LinearOperator`: `A @ v`, `v @ A`, sums, multiples, and everything in SciPy
    that takes one.
    """

    products: int

    def __init__(self, product: Callable[[np.ndarray], np.ndarray], size: int, dtype: Any):
        super().__init__(dtype, (size, size))
        self._product, self.products = product, 0

    def _matvec(self, x: np.ndarray) -> np.ndarray:
        self.products += 1
        return self._product(np.ascontiguousarray(x, self.dtype).ravel())

    def _adjoint(self) -> "SymmetricOperator":
        return self

    def _transpose(self) -> "SymmetricOperator":
        return self


def hessian(s: Specimen) -> SymmetricOperator:
    """H = d2L / dtheta2 of the mean loss L, (parameters, parameters).

    Examples
    --------
    >>> import numpy as np, finitewidth as fw
    >>> x, y = np.array([[1.0, 0.0], [0.0, 2.0]]), np.zeros((2, 1))
    >>> s = fw.measure.specimen(lambda w, x: x @ w, x, y, params=np.ones((2, 1)))
    >>> fw.measure.hessian(s) @ np.ones(2)      # x^T x / 2
    array([0.5, 2. ])
    """
    return _by_weights(s, s.hessian_product)


def gauss_newton(s: Specimen) -> SymmetricOperator:
    """G = Avg_i J_i^T (d2l / df2) J_i with J_i = df(x_i) / dtheta: the Hessian of the linearised network."""
    return _by_weights(s, s.gauss_newton_product)


def model_curvature(s: Specimen) -> SymmetricOperator:
    """H - G = Avg_i sum_k (dl / df_k) d2f_k(x_i) / dtheta2: what the curvature of the network itself adds."""
    return _by_weights(s, lambda v: s.hessian_product(v) - s.gauss_newton_product(v))


def fisher(s: Specimen) -> SymmetricOperator:
    """F = Avg_i E_y[g g^T] with g = d(-log p(y | x_i)) / dtheta and labels y drawn from the model.

    The model of "cross_entropy" is p = softmax(f), the model of "mse" a Gaussian of unit variance about f.
    The average over y is exact: it weighs J_i with diag(p) - p p^T or with one.
    """
    if s.loss == "cross_entropy":
        outputs = s.outputs()
        p = np.exp(outputs - outputs.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        weigh = lambda u: p * (u - np.sum(p * u, axis=1, keepdims=True))
    elif s.loss == "mse":
        weigh = lambda u: u
    else:
        raise ValueError(
            f"the Fisher matrix needs labels drawn from the model, which loss={s.loss!r} does not define; "
            "'cross_entropy' and 'mse' do."
        )
    return _by_weights(s, lambda v: s.transposed_jacobian_product(weigh(s.jacobian_product(v))) / s.points)


def empirical_fisher(s: Specimen) -> SymmetricOperator:
    """Avg_i g_i g_i^T with g_i = dl(f(x_i), y_i) / dtheta at the given labels: not the Fisher matrix."""
    slopes = s.loss_slopes()

    def product(v: np.ndarray) -> np.ndarray:
        along = np.sum(slopes * s.jacobian_product(v), axis=1, keepdims=True)
        return s.transposed_jacobian_product(slopes * along) / s.points

    return _by_weights(s, product)


def tangent_kernel(s: Specimen) -> SymmetricOperator:
    """J J^T, the empirical neural tangent kernel, (points * out, points * out): sum over all parameters.

    Row i * out + a stands for output a of point i. All learning rates are one.
    """
    shape = s.outputs().shape

    def product(u: np.ndarray) -> np.ndarray:
        return s.jacobian_product(s.transposed_jacobian_product(u.reshape(shape))).ravel()

    return SymmetricOperator(product, int(np.prod(shape)), s.weights.dtype)


def _by_weights(s: Specimen, product: Callable[[np.ndarray], np.ndarray]) -> SymmetricOperator:
    weights = s.weights
    return SymmetricOperator(product, len(weights), weights.dtype)
