r"""The steady state of descent with noisy gradients near a minimum, exact in the step.

Near a minimum with Hessian H and gradient noise of covariance C, a step is
$\delta'=(1-\eta H)\delta-\eta\xi$. Its stationary covariance solves the discrete Lyapunov equation

$$\Sigma=(1-\eta H)\,\Sigma\,(1-\eta H)+\eta^2C,\qquad
\Sigma_{ij}=\frac{\eta\,C_{ij}}{h_i+h_j-\eta h_ih_j}$$

in the eigenbasis of H.
"""

import numpy as np
from jaxtyping import Float

from finitewidth._base.arrays import AnyArray, Matrix
from finitewidth._base.checks import check_positive, check_whole, is_number

# An eigenvalue below this part of the largest one counts as zero: rounding makes them.
FLAT = 1e-10
# Asymmetry of a matrix, relative to its largest entry, that rounding can explain.
_ASYMMETRY = 1e-8


def steady_covariance(
    hessian: Float[AnyArray, "params params"],
    noise: Float[AnyArray, "params params"],
    eta: float | int,
    *,
    momentum: float | int = 0.0,
) -> Matrix:
    r"""Covariance of the weights around a minimum once descent with noisy gradients is stationary.

    The noise is taken as independent of the position. `least_squares_steady_state` knows better for linear
    regression, where the curvature of a batch is random, too.

    Parameters
    ----------
    hessian
        H, symmetric and positive.
    noise
        Covariance C of the gradient of a batch, for example from `batch_covariance`.
    eta
        The step, below $(2+2b)/\lambda_{max}$.
    momentum
        b of the heavy ball $v'=bv+g$, $\theta'=\theta-\eta v'$.

    Examples
    --------
    >>> import numpy as np
    >>> from finitewidth.course.stochastic_gradients.theory import steady_covariance
    >>> steady_covariance(np.array([[2.0]]), np.array([[1.69]]), 0.1).round(6)
    array([[0.046944]])
    """
    values, vectors, rotated = _modes(hessian, noise)
    check_positive("eta", eta)
    if not (is_number(momentum) and 0 <= momentum < 1):
        raise ValueError(f"momentum must be at least 0 and below 1, got {momentum!r}.")
    eta, b = float(eta), float(momentum)
    refuse_unstable(eta, (2 + 2 * b) / values[-1])
    if b == 0:
        inside = eta * rotated / (values[:, None] + values - eta * np.outer(values, values))
    else:
        inside = _with_momentum(values, rotated, eta, b)
    return vectors @ inside @ vectors.T


def pass_covariance(
    hessian: Float[AnyArray, "params params"],
    noise: Float[AnyArray, "params params"],
    eta: float | int,
    batches: int,
) -> Matrix:
    r"""Covariance of the weights after each pass, when a pass takes all batches once, in random order.

    The noise of the k batches of a pass adds up to zero, so that two of them have the covariance $-C/(k-1)$
    and what a pass leaves is of order $\eta^3$, where independent batches leave $\eta$. With $a_i=1-\eta
    h_i$,

    $$\Sigma_{ij}=\frac{\eta^2C_{ij}}{1-(a_ia_j)^k}\left[\frac k{k-1}\sum_t(a_ia_j)^t
    -\frac1{k-1}\sum_ta_i^t\sum_ta_j^t\right],\qquad t=0,\dots,k-1.$$

    Parameters
    ----------
    hessian, noise, eta
        As in `steady_covariance`.
    batches
        Batches in a pass, k, at least 2.
    """
    values, vectors, rotated = _modes(hessian, noise)
    check_positive("eta", eta)
    check_whole("batches", batches, least=2)
    refuse_unstable(float(eta), 2 / values[-1])
    a, t, k = 1 - float(eta) * values, np.arange(int(batches)), int(batches)
    powers = a[:, None] ** t
    own, pairs = powers @ powers.T, np.outer(powers.sum(axis=1), powers.sum(axis=1))
    made = eta**2 * rotated * (k * own - pairs) / (k - 1)
    return vectors @ (made / (1 - np.outer(a, a) ** k)) @ vectors.T


def refuse_unstable(eta: float, limit: float) -> None:
    """Refuse a step at which nothing stays near the minimum."""
    if eta >= limit:
        raise ValueError(
            f"eta={eta:.4g} is beyond stability, which ends at {limit:.4g} here: there is no steady state; "
            "take a smaller step."
        )


def refuse_flat(values: Float[np.ndarray, " params"], name: str = "hessian") -> None:
    """Refuse directions without curvature, along which noise makes a random walk."""
    flat = int(np.sum(values <= FLAT * max(values[-1], 0.0)))
    if flat:
        raise ValueError(
            f"{name} is singular or negative in {flat} of {len(values)} directions (smallest eigenvalue "
            f"{values[0]:.3g}): weights walk off along them and there is no steady state; add weight decay, "
            "or leave these directions out."
        )


def _modes(hessian, noise) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Eigenvalues in rising order, eigenvectors, and the noise in their basis."""
    h, c = as_symmetric("hessian", hessian), as_symmetric("noise", noise)
    if h.shape != c.shape:
        raise ValueError(f"noise has shape {c.shape}; a Hessian of shape {h.shape} needs the same.")
    values, vectors = np.linalg.eigh(h)
    refuse_flat(values)
    return values, vectors, vectors.T @ c @ vectors


def as_symmetric(name: str, matrix) -> Matrix:
    """A finite, symmetric matrix."""
    a = np.asarray(matrix, float)
    if a.ndim != 2 or a.shape[0] != a.shape[1] or not a.size:
        raise ValueError(f"{name} must be a square matrix, got shape {a.shape}.")
    if not np.isfinite(a).all():
        raise ValueError(f"{name} holds NaN or infinite values.")
    if np.abs(a - a.T).max() > _ASYMMETRY * np.abs(a).max():
        raise ValueError(f"{name} is not symmetric: entries differ by up to {np.abs(a - a.T).max():.3g}.")
    return (a + a.T) / 2


def _with_momentum(values: np.ndarray, noise: np.ndarray, eta: float, b: float) -> np.ndarray:
    """Position and velocity of two modes: four linear equations for each pair."""
    d = len(values)
    one = np.empty((d, 2, 2))
    one[:, 0, 0], one[:, 0, 1], one[:, 1, 0], one[:, 1, 1] = 1 - eta * values, -eta * b, values, b
    maps = np.einsum("iac,jbd->ijabcd", one, one).reshape(d, d, 4, 4)
    kick = np.outer([-eta, 1.0], [-eta, 1.0]).ravel()
    moments = np.linalg.solve(np.eye(4) - maps, noise[..., None, None] * kick[:, None])
    return moments[..., 0, 0]
