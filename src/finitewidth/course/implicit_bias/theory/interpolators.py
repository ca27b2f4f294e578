r"""Which interpolator training picks when there are more weights than equations.

Gradient descent on least squares never leaves $w_0+\mathrm{rowspace}(X)$, with or without momentum, so it
ends at the interpolator nearest to its start, $w_0+X^+(y-Xw_0)$. Mirror descent ends at the interpolator
nearest in Bregman's distance of its potential, $\nabla\psi(w)=\nabla\psi(w_0)+X^T\nu$ with $Xw=y$.
"""

import warnings
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_numbers, check_positive
from finitewidth.course.implicit_bias.theory.potentials import Potential, Weights

# Part of the labels that may stay unfitted, and what rounding leaves of them.
_UNFITTED, _ROUNDING = 1e-8, 1e-14
# Gap that the solver for cones is asked for, more than it can do, and the error of weights that is let pass.
_CONES, _CONVEX = 1e-13, 1e-6
# By how much a step may change a slope, so that an exponential stays near its parabola, and below which it
# is its parabola.
_REACH, _SMALL_MOVE = 2.0, 1e-6
_MOST_STEPS = 500
# Slopes beyond it have no weights in 64 bits.
_LARGEST = 600.0


class Limit(NamedTuple):
    r"""Where training ends.

    Attributes
    ----------
    weights
        The interpolator.
    multipliers
        $\nu$, one for each point: the slopes of the potential have moved by $X^T\nu$.
    residual
        The largest error that is left, $\max_i|(Xw-y)_i|$.
    """

    weights: Weights
    multipliers: Float[np.ndarray, " train"]
    residual: float


class Function(NamedTuple):
    """A function that training ends at, by its values.

    Attributes
    ----------
    train, test
        At the training points, and wherever else the kernel was given.
    coefficients
        Of the kernels of the training points, added to the function at the start.
    norm
        How far the function has moved, in the norm of the kernel's space.
    """

    train: Float[np.ndarray, " train"]
    test: Float[np.ndarray, " test"]
    coefficients: Float[np.ndarray, " train"]
    norm: float


def descent_limit(
    x: Float[AnyArray, "train features"],
    y: Float[AnyArray, " train"],
    start: Float[AnyArray, " features"] | None = None,
    *,
    eta: float | None = None,
    momentum: float = 0.0,
) -> Limit:
    """The interpolator that gradient descent reaches on half the sum of squared errors.

    Parameters
    ----------
    x, y
        Features and labels; the labels must be reached by some weights.
    start
        First weights; zero gives the interpolator of least norm.
    eta, momentum
        If a step is given, it is refused where descent would diverge: at 2 (1 + momentum) / lambda_max.
        Neither changes where descent ends.

    Examples
    --------
    >>> import numpy as np
    >>> descent_limit(np.array([[1.0, 1.0]]), np.array([2.0])).weights.tolist()
    [1.0, 1.0]
    >>> descent_limit(np.array([[1.0, 1.0]]), np.array([2.0]), np.array([1.0, 0.0])).weights.tolist()
    [1.5, 0.5]
    """
    x, y = equations(x, y)
    w = np.zeros(x.shape[1]) if start is None else _start(start, x)
    if not 0 <= momentum < 1:
        raise ValueError(f"momentum must be between 0 and 1, got {momentum!r}.")
    if eta is not None:
        check_positive("eta", eta)
        limit = 2 * (1 + momentum) / np.linalg.norm(x, 2) ** 2
        if eta >= limit:
            raise ValueError(
                f"eta={eta:.4g} is not below 2 (1 + momentum)/lambda_max={limit:.4g}: descent diverges on "
                "this data."
            )
    multipliers = np.linalg.lstsq(x @ x.T, y - x @ w, rcond=None)[0]
    end = w + np.linalg.lstsq(x, y - x @ w, rcond=None)[0]
    return Limit(end, multipliers, _residual(x, y, end))


def kernel_descent_limit(
    kernel: Float[AnyArray, "train train"],
    y: Float[AnyArray, " train"],
    kernel_test_train: Float[AnyArray, "test train"] | None = None,
    *,
    start_train: Float[AnyArray, " train"] | float = 0.0,
    start_test: Float[AnyArray, " test"] | float = 0.0,
) -> Function:
    r"""The function that gradient descent in the space of a kernel reaches, $f_0+K(\cdot,X)K^{-1}(y-f_0)$.

    Parameters
    ----------
    kernel, y
        Kernel and labels of the training points.
    kernel_test_train
        Kernel of other points with them.
    start_train, start_test
        The function at the start, at both; zero gives the interpolator of least norm in the kernel's space.
    """
    kernel, y = equations(kernel, y, "kernel")
    rows = np.zeros((0, len(y))) if kernel_test_train is None else np.asarray(kernel_test_train, float)
    before, there = np.asarray(start_train, float), np.asarray(start_test, float)
    coefficients = np.linalg.lstsq(kernel, y - before, rcond=None)[0]
    return Function(
        train=before + kernel @ coefficients,
        test=there + rows @ coefficients,
        coefficients=coefficients,
        norm=float(np.sqrt(max(coefficients @ kernel @ coefficients, 0.0))),
    )


def mirror_limit(
    potential: Potential,
    x: Float[AnyArray, "train features"],
    y: Float[AnyArray, " train"],
    start: Float[AnyArray, " features"] | None = None,
) -> Limit:
    r"""The interpolator that mirror descent reaches, by Newton's method on the convex dual.

    The dual is $\min_\nu\psi^*(\nabla\psi(w_0)+X^T\nu)-\nu\cdot y$; its slope is the residual. A step
    changes no slope by more than two, within which exponentials are nearly their parabolas.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.implicit_bias.theory import Entropy, HyperbolicEntropy
    >>> x, y = np.array([[1.0, 2.0]]), np.array([2.0])
    >>> mirror_limit(HyperbolicEntropy(1e-12), x, y).weights.round(5).tolist()    # the least sum of sizes
    [0.0, 1.0]
    >>> mirror_limit(HyperbolicEntropy(1e6), x, y).weights.round(5).tolist()      # the shortest
    [0.4, 0.8]
    """
    x, y = equations(x, y)
    w = potential.origin(x.shape[1]) if start is None else _start(start, x)
    first = potential.slopes(w)
    # Labels and rows of size one.
    size = np.abs(y).max() or 1.0
    left, sizes, _ = np.linalg.svd(x, full_matrices=False)
    kept = sizes > sizes[0] * max(x.shape) * np.finfo(float).eps
    rows, labels = left[:, kept].T @ x, left[:, kept].T @ y
    nu = np.zeros(len(rows))

    def height(nu: np.ndarray) -> float:
        with np.errstate(over="ignore"):
            return potential.conjugate(first + rows.T @ nu) - float(nu @ labels)

    for _ in range(_MOST_STEPS):
        slopes = first + rows.T @ nu
        if np.abs(slopes).max() > _LARGEST:
            break
        gradient = rows @ potential.weights(slopes) - labels
        if np.abs(gradient).max() <= _ROUNDING * size:
            break
        step = -_solved((rows * potential.softness(slopes)) @ rows.T, gradient)
        move, gain = np.abs(rows.T @ step).max(), -float(gradient @ step)
        if move < _SMALL_MOVE:
            # The parabola is exact to rounding, and heights no longer tell two points apart.
            nu = nu + step
            if move < _ROUNDING * (1 + np.abs(slopes).max()):
                break
            continue
        share, now = min(1.0, _REACH / move), height(nu)
        while share > _SMALL_MOVE and not height(nu + share * step) <= now - 0.1 * share * gain:
            share /= 2
        nu = nu + share * step
    end = potential.weights(first + rows.T @ nu)
    if _residual(x, y, end) > _UNFITTED * size:
        raise ValueError(
            f"y cannot be interpolated by weights that {type(potential).__name__} reaches: Newton's "
            f"method ends with a residual of {_residual(x, y, end):.2g}."
        )
    return Limit(end, left[:, kept] @ nu, _residual(x, y, end))


def convex_limit(
    potential: Potential,
    x: Float[AnyArray, "train features"],
    y: Float[AnyArray, " train"],
    start: Float[AnyArray, " features"] | None = None,
) -> Limit:
    """The same interpolator as `mirror_limit`, by a solver for cones: CVXPY with Clarabel.

    Slower and good to six or more digits while weights are not much smaller than the scale of the potential;
    it shares nothing with Newton's method on the dual.
    """
    import cvxpy as cp

    x, y = equations(x, y)
    w = cp.Variable(x.shape[1])
    objective, constraints = potential.expression(w)
    if start is not None:
        objective = objective - potential.slopes(_start(start, x)) @ w
    fits = x @ w == y
    problem = cp.Problem(cp.Minimize(objective), [*constraints, fits])
    with warnings.catch_warnings():
        # It is asked for more than it can do; what it did is checked below.
        warnings.filterwarnings("ignore", "Solution may be inaccurate")
        problem.solve(solver=cp.CLARABEL, tol_gap_abs=_CONES, tol_gap_rel=_CONES, tol_feas=_CONES)
    if w.value is None:
        raise ValueError(f"the convex solver ends with status {problem.status!r} and no weights.")
    nu = -np.asarray(fits.dual_value)
    first = 0.0 if start is None else potential.slopes(_start(start, x))
    slopes = first + nu @ x
    error = np.abs(potential.softness(slopes) * (potential.slopes(w.value) - slopes)).max()
    if not error <= _CONVEX * np.abs(w.value).max():
        raise ValueError(
            f"the convex solver stops {error:.2g} away from its own optimality conditions: the weights "
            "are too small for the scale of the potential; take mirror_limit."
        )
    return Limit(w.value, nu, _residual(x, y, w.value))


def equations(x: object, y: object, name: str = "x") -> tuple[np.ndarray, np.ndarray]:
    """Features and labels in NumPy, if some weights reach the labels."""
    x, y = np.asarray(as_numbers(name, x), float), np.asarray(as_numbers("y", y), float)
    if x.ndim != 2 or y.shape != x.shape[:1]:
        raise ValueError(
            f"{name} has shape {x.shape} and y {y.shape}; they must be (points, ...) and (points,)."
        )
    for label, array in ((name, x), ("y", y)):
        if not np.isfinite(array).all():
            raise ValueError(f"{label} holds NaN or infinite values.")
    left = _residual(x, y, np.linalg.lstsq(x, y, rcond=None)[0])
    if left > _UNFITTED * max(np.abs(y).max(initial=0.0), np.finfo(float).tiny):
        raise ValueError(
            f"y cannot be interpolated: {len(y)} labels, {name} has rank {np.linalg.matrix_rank(x)}, and "
            f"the best fit leaves {left:.3g} at its worst point."
        )
    return x, y


def _start(start: object, x: np.ndarray) -> np.ndarray:
    start = np.asarray(as_numbers("start", start), float)
    if start.shape != x.shape[1:]:
        raise ValueError(f"start has shape {start.shape}; {x.shape[1]} features need ({x.shape[1]},).")
    return start


def _residual(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> float:
    return float(np.abs(x @ w - y).max(initial=0.0))


def _solved(curvature: np.ndarray, gradient: np.ndarray) -> np.ndarray:
    """Solve with a positive matrix whose rows may be of very different size."""
    size = 1 / np.sqrt(np.maximum(np.diag(curvature), np.finfo(float).tiny))
    return size * np.linalg.lstsq(size[:, None] * curvature * size, size * gradient, rcond=None)[0]
