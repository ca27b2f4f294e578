r"""Averages over the residuals at the start, $e\sim N(-y,K)$, of functions of their direction and size.

With $e=Lu$ and $u=r\omega$ a function that is odd and of degree two leaves one radial integral,

$$E[c(e)]=\int d\omega\,c(L\omega)\,\rho_{N+1}(\mu\cdot\omega),\qquad
\rho_k(b)=(2\pi)^{-N/2}e^{-\mu^2/2}\int_0^\infty r^ke^{-r^2/2+br}\,dr,\qquad \mu=-L^{-1}y,$$

over all directions, or half of them with $\rho_k(b)-\rho_k(-b)$. Times one more factor of e the function is
even and of degree three: $\rho_{N+2}(b)+\rho_{N+2}(-b)$.
"""

import math
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.special import ndtr

_ORDER = 8
_UNIT, _UNIT_WEIGHT = np.polynomial.legendre.leggauss(_ORDER)
_FIRST_PANELS = 24
_MOST_HALVINGS = 6
_SPHERE = 40

# Values (directions, numbers) at unit vectors (directions, dimensions).
Integrand = Callable[[Float[np.ndarray, "directions n"]], Float[np.ndarray, "directions numbers"]]


def radial(
    omega: Float[np.ndarray, "directions n"], mu: Float[np.ndarray, " n"], power: int
) -> Float[np.ndarray, " directions"]:
    """rho_(n + power)(b), less (power odd) or plus (power even) its value at -b, for half the directions."""
    n = omega.shape[1]
    b = omega @ mu
    sign = -1 if power % 2 else 1
    scale = (2 * math.pi) ** (-n / 2)
    return scale * (_moment(n + power, b, mu) + sign * _moment(n + power, -b, mu))


def _moment(k: int, b: Float[np.ndarray, " directions"], mu: Float[np.ndarray, " n"]) -> np.ndarray:
    small = np.exp(-(mu @ mu) / 2)
    below = math.sqrt(2 * math.pi) * np.exp((b**2 - mu @ mu) / 2) * ndtr(b)
    here = small + b * below
    for order in range(2, k + 1):
        below, here = here, (order - 1) * below + b * here
    return here


def integrate(integrand: Integrand, dimensions: int, tolerance: float) -> np.ndarray:
    """The integral over half of all directions, in at most three dimensions."""
    if dimensions == 1:
        return integrand(np.ones((1, 1)))[0]
    if dimensions == 2:
        return _half_circle(lambda t: integrand(np.stack([np.cos(t), np.sin(t)], axis=1)), tolerance)
    return _half_sphere(integrand)


def _half_circle(f: Callable[[np.ndarray], np.ndarray], tolerance: float) -> np.ndarray:
    """Panels are halved where the integrand has kinks, until the whole no longer changes."""
    edges = np.linspace(0, math.pi, _FIRST_PANELS + 1)
    left, right = edges[:-1], edges[1:]
    coarse = _panels(f, left, right)
    total = np.zeros(coarse.shape[1])
    size = np.abs(coarse).sum(axis=0)
    for _ in range(_MOST_HALVINGS):
        middle = (left + right) / 2
        halves = _panels(f, np.concatenate([left, middle]), np.concatenate([middle, right]))
        fine = halves[: len(left)] + halves[len(left) :]
        done = (np.abs(fine - coarse) <= tolerance * size).all(axis=1)
        total += fine[done].sum(axis=0)
        if done.all():
            return total
        keep = np.concatenate([~done, ~done])
        left, right, coarse = (
            np.concatenate([left, middle])[keep],
            np.concatenate([middle, right])[keep],
            halves[keep],
        )
    return total + coarse.sum(axis=0)


def _panels(f: Callable[[np.ndarray], np.ndarray], left: np.ndarray, right: np.ndarray) -> np.ndarray:
    half = (right - left)[:, None] / 2
    angle = (left + right)[:, None] / 2 + half * _UNIT
    values = f(angle.ravel()).reshape(*angle.shape, -1)
    return np.einsum("pnv,n,p->pv", values, _UNIT_WEIGHT, half[:, 0])


def _half_sphere(integrand: Integrand) -> np.ndarray:
    unit, weight = np.polynomial.legendre.leggauss(_SPHERE)
    height, weight = (unit + 1) / 2, weight / 2
    angle = 2 * math.pi * (np.arange(2 * _SPHERE) + 0.5) / (2 * _SPHERE)
    flat = np.sqrt(1 - height**2)
    omega = np.stack(
        [np.outer(flat, np.cos(angle)), np.outer(flat, np.sin(angle)), np.outer(height, np.ones_like(angle))],
        axis=-1,
    ).reshape(-1, 3)
    weights = np.outer(weight, np.full_like(angle, 2 * math.pi / len(angle))).ravel()
    return weights @ integrand(omega)
