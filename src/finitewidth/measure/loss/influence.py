r"""Influence functions: what leaving out one training point would do to a test loss, without training again.

Training minimises $L(\theta)+\frac r2|\theta|^2$ with the mean loss L over n points. Leave out point i and
keep the factor 1/n: to first order $\theta$ moves by $\frac1nH^{-1}g_i$ with the Hessian H of the objective
and the gradient $g_i$ of the point's own loss. The test loss changes by $\frac1n\,g_{test}\cdot H^{-1}g_i$.
"""

from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.sparse.linalg import cg

from finitewidth._base.checks import is_number
from finitewidth.measure.loss.operators import SymmetricOperator, hessian
from finitewidth.measure.loss.spectrum import eigenpairs
from finitewidth.measure.specimen import Specimen

# Up to so many parameters the Hessian is written down; beyond, it is known by products.
_DENSE = 1500
# An eigenvalue below this share of the largest is zero: its inverse would be rounding.
_SINGULAR = 1e-10


class Influence(NamedTuple):
    """The predicted effect of every training point."""

    changes: Float[np.ndarray, " points"]
    """Change of the mean test loss when the point is left out: positive for a point that helps."""
    smallest_eigenvalue: float
    """Of the Hessian with ridge and damping."""
    gradient: float
    """Length of the gradient of the objective: zero where training has ended."""


def influence(
    trained: Specimen, x_test: Any, y_test: Any, *, ridge: float | int = 0.0, damping: float | int = 0.0
) -> Influence:
    r"""The influence of every training point on the test loss, of a model in any framework.

    Parameters
    ----------
    trained
        A specimen at its trained weights with its training data: `specimen(model, x, y, params=params)`.
    x_test, y_test
        Test points and labels; the loss is the specimen's, averaged over them.
    ridge
        r of the penalty $\frac r2|\theta|^2$ that training had.
    damping
        Added to the Hessian where it is singular or has negative eigenvalues, as away from a minimum.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.measure import influence, specimen
    >>> x, y = np.array([[1.0], [1.0], [1.0]]), np.array([[0.0], [0.0], [3.0]])
    >>> mean = specimen(lambda w, x: x * w, x, y, params=np.array([1.0]))   # the mean of the labels
    >>> influence(mean, np.array([[1.0]]), np.array([[3.0]])).changes.round(6).tolist()
    [-0.666667, -0.666667, 1.333333]
    """
    for name, value in (("ridge", ridge), ("damping", damping)):
        if not (is_number(value) and 0 <= value < np.inf):
            raise ValueError(f"{name} must be zero or a positive number, got {value!r}.")
    g_test = trained.on(x_test, y_test).gradient().astype(float)
    shift = ridge + damping
    solution, smallest = _solved(trained, g_test, shift)
    along = trained.jacobian_product(solution.astype(trained.weights.dtype))
    changes = np.sum(trained.loss_slopes() * along, axis=1, dtype=float) / trained.points
    objective = trained.gradient().astype(float) + ridge * trained.weights
    return Influence(changes, smallest, float(np.linalg.norm(objective)))


def _solved(trained: Specimen, right: np.ndarray, shift: float) -> tuple[np.ndarray, float]:
    """(H + shift)^(-1) right, and the smallest eigenvalue."""
    size = len(right)
    if size <= _DENSE:
        units = np.eye(size, dtype=trained.weights.dtype)
        matrix = np.stack([trained.hessian_product(unit) for unit in units]).astype(float)
        values, vectors = np.linalg.eigh((matrix + matrix.T) / 2 + shift * np.eye(size))
        _refuse_singular(values[0], np.abs(values).max(), shift)
        return vectors @ ((vectors.T @ right) / values), float(values[0])
    operator = hessian(trained)
    ends = eigenpairs(operator, 2, "both")
    smallest, largest = (float(end(ends.values)) + shift for end in (np.min, np.max))
    _refuse_singular(smallest, max(largest, abs(smallest)), shift)
    product = SymmetricOperator(lambda v: operator @ v + shift * v, size, float)
    solution, failed = cg(product, right, rtol=1e-8, maxiter=5000)
    if failed:
        raise ValueError("conjugate gradients did not solve for the influence: pass a larger damping.")
    return solution, smallest


def _refuse_singular(smallest: float, largest: float, shift: float) -> None:
    if smallest <= _SINGULAR * largest:
        raise ValueError(
            f"the Hessian has the eigenvalue {smallest - shift:.3g}, ridge + damping is {shift:.3g}: it "
            f"cannot be inverted; pass a damping above {max(shift - smallest, 0) + 1e-6 * largest:.2g}, or "
            "train to a minimum."
        )
