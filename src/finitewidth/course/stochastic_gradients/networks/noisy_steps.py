"""Walkers and weights that move by noisy steps, many independent ones at once, in NumPy."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from finitewidth._base.estimate import Estimate, sample_mean


def chain_covariance(
    moves: Callable[[np.ndarray], np.ndarray], start: Float[np.ndarray, "chains d"], burn_in: int, steps: int
) -> Estimate:
    """Second moments of positions, averaged over time after a burn-in and over independent chains."""
    at = start
    for _ in range(burn_in):
        at = moves(at)
    total = np.zeros((len(at), at.shape[1], at.shape[1]))
    for _ in range(steps):
        at = moves(at)
        total += at[:, :, None] * at[:, None]
    return sample_mean(total / steps)


class BernoulliDescent(NamedTuple):
    """Time averages along every chain of stochastic gradient descent on linear regression."""

    position_gradient: Float[np.ndarray, "chains d d"]
    """(theta - minimiser)_i dL/dtheta_j with the gradient of all points."""
    squares: Float[np.ndarray, "chains d d"]
    """g_i g_j of the gradient of a batch."""


def bernoulli_descent(
    rng: np.random.Generator,
    x: Float[np.ndarray, "m d"],
    y: Float[np.ndarray, " m"],
    eta: float,
    batch_size: int,
    chains: int,
    steps: int,
) -> BernoulliDescent:
    """Every point is in a batch with probability b/m, and sums are divided by b.

    The burn-in is eight times the memory 1/(eta lambda_min) of the slowest direction.
    """
    m, d = x.shape
    minimiser = np.linalg.lstsq(x, y, rcond=None)[0]
    burn_in = int(8 / (eta * np.linalg.eigvalsh(x.T @ x / m)[0])) + 1
    at = np.broadcast_to(minimiser, (chains, d)).copy()
    products, squares = np.zeros((2, chains, d, d))
    for t in range(burn_in + steps):
        errors = at @ x.T - y
        taken = rng.random((chains, m)) < batch_size / m
        slope = (taken * errors) @ x / batch_size
        if t >= burn_in:
            products += (at - minimiser)[:, :, None] * (errors @ x / m)[:, None]
            squares += slope[:, :, None] * slope[:, None]
        at = at - eta * slope
    return BernoulliDescent(products / steps, squares / steps)


def occupation(
    step: Callable[[np.ndarray], np.ndarray],
    start: Float[np.ndarray, " walkers"] | Int[np.ndarray, " walkers"],
    inside: Callable[[np.ndarray], Bool[np.ndarray, " walkers"]],
    burn_in: int,
    steps: int,
) -> Estimate:
    """Share of time that independent walkers spend inside."""
    at = start
    for _ in range(burn_in):
        at = step(at)
    share = np.zeros(len(at))
    for _ in range(steps):
        at = step(at)
        share += inside(at)
    return sample_mean(share / steps)


def ring_occupation(steps: Int[np.ndarray, " sites"], inside: Bool[np.ndarray, " sites"]) -> float:
    """Share of time inside, from the distribution of a walker that all further steps leave as it is.

    The distribution is squared forward: the transition over twice as many steps is the square of the matrix.
    """
    n = len(steps)
    moves = np.zeros((n, n))
    for site in range(n):
        for sign in (1, -1):
            moves[site, (site + sign * steps[site]) % n] += 0.5
    # A lazy walker has the same stationary law and no period.
    moves = (moves + np.eye(n)) / 2
    for _ in range(40):
        moves = moves @ moves
        moves /= moves.sum(axis=1, keepdims=True)
    return float(moves[0] @ inside)
