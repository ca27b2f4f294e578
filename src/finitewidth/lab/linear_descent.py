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


def descend(
    problem: LinearProblem, eta: float, at: tuple[int, ...], start: np.ndarray | None = None
) -> Float[np.ndarray, "times features"]:
    """Weights after each of the given numbers of steps on half the sum of squared errors."""
    w = problem.start if start is None else start
    kept = []
    for step in range(max(at) + 1):
        if step in at:
            kept.append(w)
        w = w - eta * problem.train.T @ (problem.train @ w - problem.y)
    return np.stack(kept)
