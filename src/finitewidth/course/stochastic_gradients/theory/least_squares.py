r"""Stochastic gradient descent on linear regression: its steady state without approximation.

The loss is $\frac1{2m}\sum_i(x_i\cdot\theta-y_i)^2+\frac\rho2|\theta|^2$. A batch has a curvature of its
own, so that the noise depends on where the weights are. Still the second moment
$S=\langle\delta\delta^T\rangle$ around the minimiser obeys a linear recursion. With $G=\frac1m\sum
x_ix_i^T$, residuals $r_i$ at the minimiser and the factors of `batch_factors`, it is stationary where

$$(G+\rho)S+S(G+\rho)-\eta\,B[S]=\eta\,C,\qquad
B[S]=c_{own}\frac1m\sum_i(x_i^TSx_i)\,x_ix_i^T+c_{pair}GSG+\rho(GS+SG)+\rho^2S.$$

Both sides are symmetric operators on symmetric matrices. The second moment stays finite if and only if the
left one is positive, which bounds the step more tightly than $2/\lambda_{max}$ does.
"""

import equinox as eqx
import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve, eigh

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_columns, as_numbers, check_positive, is_number
from finitewidth.course.stochastic_gradients.theory.batches import batch_factors
from finitewidth.course.stochastic_gradients.theory.steady_state import refuse_flat, refuse_unstable

_MOST_FEATURES = 80

Square = Float[np.ndarray, "features features"]


class LeastSquaresSteadyState(eqx.Module):
    """Where stochastic gradient descent on linear regression stays."""

    minimiser: Float[np.ndarray, " features"]
    r"""$\theta_*$, the mean of the weights."""
    covariance: Square
    r"""$S=\langle(\theta-\theta_*)(\theta-\theta_*)^T\rangle$."""
    hessian: Square
    r"""$H=G+\rho$."""
    noise: Square
    r"""Covariance C of the gradient of a batch at the minimiser."""
    gradient_moment: Square
    r"""$\tilde C=\langle g_Bg_B^T\rangle$, the second moment of the gradient of a batch."""
    eta: float
    r"""The step $\eta$."""
    step_limit: float
    """The step from which on the second moment grows without bound."""

    @property
    def excess_loss(self) -> float:
        r"""$\frac12\mathrm{tr}(HS)$: how far the loss stays above its minimum on average."""
        return float(np.sum(self.hessian * self.covariance)) / 2

    @property
    def dissipation(self) -> float:
        r"""$\langle(\theta-\theta_*)\cdot\nabla L\rangle=\mathrm{tr}(HS)$, which is
        $\frac\eta2\mathrm{tr}\,\tilde C$."""
        return float(np.sum(self.hessian * self.covariance))


def least_squares_steady_state(
    x: Float[AnyArray, "points features"],
    y: Float[AnyArray, "..."],
    *,
    batch_size: int,
    eta: float | int,
    sampling: str = "without replacement",
    ridge: float | int = 0.0,
) -> LeastSquaresSteadyState:
    r"""The steady state of stochastic gradient descent on $\frac1{2m}\sum_i(x_i\cdot\theta-y_i)^2$, exactly.

    Parameters
    ----------
    x, y
        Inputs, with a column of ones for an intercept, and one label for each.
    batch_size, sampling
        How batches are drawn, as in `batch_factors`.
    eta
        The step.
    ridge
        Weight decay $\rho$, which adds $\rho|\theta|^2/2$ to the loss.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.stochastic_gradients.theory import least_squares_steady_state
    >>> x = np.random.default_rng(0).normal(size=(100, 3))
    >>> state = least_squares_steady_state(x, np.sign(x[:, 0]), batch_size=10, eta=0.1)
    >>> bool(np.isclose(state.dissipation, 0.05 * np.trace(state.gradient_moment)))
    True
    """
    x = _as_rows(x)
    y = as_columns("y", y, len(x), x.dtype)[:, 0]
    check_positive("eta", eta)
    own, pair, rho = *batch_factors(batch_size, len(x), sampling), _as_ridge(ridge)
    modes = _Modes.of(x, own, pair, rho)
    limit = modes.step_limit
    refuse_unstable(float(eta), limit)
    theta = np.linalg.solve(modes.hessian, x.T @ y / len(x))
    pull = np.outer(theta, theta) * rho**2
    noise = own * _weighted(x, (y - x @ theta) ** 2) + (pair - 1) * pull
    covariance = modes.solve(noise, float(eta))
    g = modes.gram
    spread = np.einsum("ia,ab,ib->i", x, covariance, x) + (y - x @ theta) ** 2
    moment = own * _weighted(x, spread) + pair * (g @ covariance @ g + pull)
    moment += rho * (g @ covariance + covariance @ g) + rho**2 * covariance - pull
    return LeastSquaresSteadyState(theta, covariance, modes.hessian, noise, moment, float(eta), limit)


def sgd_step_limit(
    x: Float[AnyArray, "points features"],
    batch_size: int,
    sampling: str = "without replacement",
    ridge: float | int = 0.0,
) -> float:
    r"""The step from which on stochastic gradient descent on linear regression has no finite second moment.

    At most $2/\lambda_{max}$, and much less for small batches. Arguments are those of
    `least_squares_steady_state`.
    """
    x = _as_rows(x)
    return _Modes.of(x, *batch_factors(batch_size, len(x), sampling), _as_ridge(ridge)).step_limit


class _Modes(eqx.Module):
    """The operator on symmetric matrices, in the eigenbasis of G: `linear` - eta `quadratic`."""

    gram: np.ndarray
    hessian: np.ndarray
    vectors: np.ndarray
    linear: np.ndarray
    quadratic: np.ndarray

    @classmethod
    def of(cls, x: np.ndarray, own: float, pair: float, rho: float) -> "_Modes":
        m, d = x.shape
        if d > _MOST_FEATURES:
            raise ValueError(
                f"x has {d} features, and the exact steady state is for at most {_MOST_FEATURES}: "
                "steady_covariance(hessian, noise, eta) leaves the random curvature of batches out."
            )
        gram = x.T @ x / m
        g, vectors = np.linalg.eigh(gram)
        refuse_flat(g + rho, "the second moment of x")
        rows, columns = np.triu_indices(d)
        # Off-diagonal entries count twice: with this factor the operator is symmetric.
        twice = np.where(rows == columns, 1.0, np.sqrt(2.0))
        z = (x @ vectors)[:, rows] * (x @ vectors)[:, columns] * twice
        sums, products = g[rows] + g[columns], g[rows] * g[columns]
        quadratic = own * (z.T @ z) / m + np.diag(pair * products + rho * sums + rho**2)
        return cls(gram, gram + rho * np.eye(d), vectors, sums + 2 * rho, quadratic)

    @property
    def step_limit(self) -> float:
        scale = np.sqrt(self.linear)
        inside = self.quadratic / np.outer(scale, scale)
        return float(1 / eigh(inside, eigvals_only=True, subset_by_index=[len(scale) - 1] * 2)[0])

    def solve(self, noise: np.ndarray, eta: float) -> np.ndarray:
        rows, columns = np.triu_indices(len(self.gram))
        twice = np.where(rows == columns, 1.0, np.sqrt(2.0))
        source = (self.vectors.T @ noise @ self.vectors)[rows, columns] * twice
        factor = cho_factor(np.diag(self.linear) - eta * self.quadratic)
        found = eta * cho_solve(factor, source) / twice
        inside = np.zeros_like(self.gram)
        inside[rows, columns] = inside[columns, rows] = found
        return self.vectors @ inside @ self.vectors.T


def _weighted(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    return (x.T * weights) @ x / len(x)


def _as_rows(x) -> np.ndarray:
    rows = np.asarray(as_numbers("x", x), float)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"x must have shape (points, features), got {rows.shape}.")
    return as_columns("x", rows, len(rows), rows.dtype)


def _as_ridge(ridge: float | int) -> float:
    if not (is_number(ridge) and 0 <= ridge < np.inf):
        raise ValueError(f"ridge must be a number of at least 0, got {ridge!r}.")
    return float(ridge)
