r"""Ridge regression in a reproducing kernel Hilbert space, and the representer theorem.

The minimiser of $\sum_i (f(x_i)-y_i)^2 + r\,\|f\|_H^2$ over the whole space is a combination of the
kernel at the training points, $f = \sum_i a_i K(x_i,\cdot)$ with $a = (K+r)^{-1}y$; its norm is
$\|f\|_H^2 = a^T K a$. Leaving out a point needs no refit: its residual is $a_i/[(K+r)^{-1}]_{ii}$.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.linalg.cholesky import factorise


class RidgeFit(NamedTuple):
    """A fitted function, by its coefficients in the kernels of the training points.

    Attributes
    ----------
    coefficients
        a, one column per output.
    fitted
        Values on the training points.
    norm_squared
        Squared RKHS norm, per output.
    inverse_diagonal
        Diagonal of (K + r)^-1.
    ridge
        r.
    """

    coefficients: Float[np.ndarray, "train out"]
    fitted: Float[np.ndarray, "train out"]
    norm_squared: Float[np.ndarray, " out"]
    inverse_diagonal: Float[np.ndarray, " train"]
    ridge: float | int

    def predict(self, kernel_test_train: Float[AnyArray, "test train"]) -> Float[np.ndarray, "test out"]:
        """Values of the fitted function where the kernel is given."""
        return np.asarray(kernel_test_train) @ self.coefficients

    @property
    def degrees_of_freedom(self) -> float:
        """Trace of the map from labels to fitted values."""
        return len(self.coefficients) - self.ridge * float(self.inverse_diagonal.sum())

    @property
    def left_out(self) -> Float[np.ndarray, "train out"]:
        """Predictions at each training point by the fit to all the others."""
        labels = self.fitted + self.ridge * self.coefficients
        return labels - self.coefficients / self.inverse_diagonal[:, None]


def ridge_regression(
    kernel: Float[AnyArray, "train train"], y: Float[AnyArray, "train out"], ridge: float | int = 0.0
) -> RidgeFit:
    """Fit by kernel ridge regression; zero ridge is the interpolator of least norm.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 2.0]])
    >>> fit = ridge_regression(x @ x.T, x @ np.array([[2.0], [-1.0]]), ridge=1e-9)
    >>> np.round(x.T @ fit.coefficients, 6).ravel().tolist()       # the weights of a linear model
    [2.0, -1.0]
    """
    if not ridge >= 0:
        raise ValueError(f"ridge must be zero or more, got {ridge}.")
    y = np.asarray(y)
    inverse = factorise(kernel, ridge).inverse()
    coefficients = inverse @ y
    fitted = np.asarray(kernel) @ coefficients
    norm_squared = np.sum(coefficients * fitted, axis=0)
    return RidgeFit(coefficients, fitted, norm_squared, np.diag(inverse).copy(), ridge)
