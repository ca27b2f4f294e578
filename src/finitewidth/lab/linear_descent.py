"""Gradient descent on the weights of a linear model, step by step."""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float


class LinearProblem(NamedTuple):
    """Features of training and test points, labels, and weights to start from."""

    train: Float[np.ndarray, "train features"]
    test: Float[np.ndarray, "test features"]
    y: Float[np.ndarray, " train"]
    start: Float[np.ndarray, " features"]


def random_problem(points: int, features: int, tests: int, seed: int) -> LinearProblem:
    """Gaussian features, labels and start."""
    rng = np.random.default_rng(seed)
    train, test = (rng.normal(size=(n, features)) / np.sqrt(features) for n in (points, tests))
    return LinearProblem(train, test, rng.normal(size=points), rng.normal(size=features))


def largest_curvature(problem: LinearProblem) -> float:
    """Squared norm of the feature matrix: the sharpest direction of the loss."""
    return float(np.linalg.norm(problem.train, 2) ** 2)


def slowest_curvature(problem: LinearProblem) -> float:
    """Smallest squared singular value of the feature matrix: the last direction to be learnt."""
    return float(np.linalg.norm(problem.train, -2) ** 2)


def steps_to_rounding(problem: LinearProblem, eta: float) -> int:
    """Steps after which e^-36 of the slowest mode is left, less than rounding leaves of anything."""
    return int(np.ceil(36 / (eta * slowest_curvature(problem))))


def descend(
    problem: LinearProblem,
    etas: Float[np.ndarray, " etas"],
    at: tuple[int, ...],
    start: Float[np.ndarray, " features"] | None = None,
) -> Float[np.ndarray, "etas times features"]:
    """Weights after each of the given numbers of steps on half the sum of squared errors."""
    w = np.tile(problem.start if start is None else start, (len(etas), 1))
    kept = []
    for step in range(max(at) + 1):
        if step in at:
            kept.append(w)
        w = w - etas[:, None] * ((w @ problem.train.T - problem.y) @ problem.train)
    return np.stack(kept, axis=1)
