"""Underdetermined least squares: random problems, gradient flow of diagonal networks, sparse
interpolators."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.integrate import quad, solve_ivp
from scipy.optimize import linprog

_ACCURACY, _ARRIVED = 1e-11, 1e-10
_MOST_DRAWS = 1000


class Equations(NamedTuple):
    """Fewer equations than unknowns, and the shape of a start."""

    x: Float[np.ndarray, "train features"]
    y: Float[np.ndarray, " train"]
    theta0: Float[np.ndarray, " features"]


def draw(rng: np.random.Generator, points: int, features: int) -> Equations:
    """Gaussian features and labels, and a start that is uneven by a factor of four."""
    x = rng.normal(size=(points, features))
    return Equations(x, rng.normal(size=points), np.exp(rng.uniform(-np.log(2), np.log(2), size=features)))


def draw_with_slack(rng: np.random.Generator, points: int, features: int, least: float) -> Equations:
    """The first draw whose sparse interpolator stays the sparsest when its unused columns grow by 1 / (1 -
    least)."""
    for _ in range(_MOST_DRAWS):
        problem = draw(rng, points, features)
        weights, slopes = sparse_interpolator(problem)
        unused = weights == 0
        if unused.sum() == features - points and np.abs(slopes[unused]).max() < 1 - least:
            return problem
    raise ValueError(f"no draw of {_MOST_DRAWS} has a slack of {least}.")


def sparse_interpolator(problem: Equations) -> tuple[np.ndarray, np.ndarray]:
    """The interpolator with the least sum of sizes, and the slope of each feature at the dual solution."""
    x = problem.x
    found = linprog(
        np.ones(2 * x.shape[1]), A_eq=np.concatenate([x, -x], axis=1), b_eq=problem.y, method="highs-ds"
    )
    return np.subtract(*np.split(found.x, 2)), found.eqlin.marginals @ x


def diagonal_path(
    problem: Equations, alpha: float, times: np.ndarray | None = None
) -> tuple[Float[np.ndarray, "times features"], Float[np.ndarray, "times features"]]:
    """Both layers of a diagonal network along gradient flow, at times or, without them, at the end of
    training."""
    (x, y, theta0), d = problem, problem.x.shape[1]

    def rates(t: float, state: np.ndarray) -> np.ndarray:
        plus, minus = state[:d], state[d:]
        g = 2 * (x @ (plus**2 - minus**2) - y) @ x
        return np.append(-plus * g, minus * g)

    start = alpha * np.append(theta0, theta0)
    follow = lambda state, end, at=None: (
        solve_ivp(
            rates, (0.0, end), state, "LSODA", at, rtol=_ACCURACY, atol=_ACCURACY * 1e-3 * start.min()
        ).y.T
    )
    if times is not None:
        states = follow(start, times[-1], times)
        return states[:, :d], states[:, d:]
    # An event would be found by interpolation, which knows nothing of the smallest weights: ever longer runs.
    state, length, left = start, 1.0, np.inf
    while left > _ARRIVED * np.abs(y).max():
        state, length = follow(state, length)[-1], 2 * length
        left = np.abs(x @ (state[:d] ** 2 - state[d:] ** 2) - y).max()
    return state[None, :d], state[None, d:]


def implied_penalty(beta: np.ndarray, alpha: float, theta0: np.ndarray) -> float:
    """The work against a diagonal network's slopes asinh(b / (2 alpha^2 theta0^2)) on the way to beta, by
    quadrature."""
    scale = 2 * alpha**2 * theta0**2

    def work(b: float, a: float) -> float:
        # b times the mean slope; the slope bends where b is near a.
        return (
            abs(b)
            * quad(lambda u: np.arcsinh(abs(b) * u / a), 0, 1, points=[min(a / abs(b), 0.5)], limit=200)[0]
        )

    return sum(work(float(b), float(a)) for b, a in zip(beta, scale, strict=True) if b)
