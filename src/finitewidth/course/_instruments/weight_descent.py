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


def random_problem(points: int, features: int, tests: int, rng: np.random.Generator) -> LinearProblem:
    """Gaussian features, labels and start."""
    train, test = (rng.normal(size=(n, features)) / np.sqrt(features) for n in (points, tests))
    return LinearProblem(train, test, rng.normal(size=points), rng.normal(size=features))


def curvatures(problem: LinearProblem) -> Float[np.ndarray, " modes"]:
    """Squared singular values of the feature matrix, the sharpest direction of the loss first."""
    return np.linalg.svd(problem.train, compute_uv=False) ** 2


def largest_curvature(problem: LinearProblem) -> float:
    """The sharpest direction of the loss."""
    return float(curvatures(problem)[0])


def steps_per_e_fold(problem: LinearProblem, etas: Float[np.ndarray, " etas"]) -> float:
    """Steps in which the slowest mode shrinks by e, at the least favourable step size."""
    slowest = np.abs(1 - np.outer(etas, curvatures(problem))).max()
    return float(-1 / np.log(max(slowest, np.finfo(float).eps)))


def steps_to_rounding(problem: LinearProblem, etas: Float[np.ndarray, " etas"]) -> int:
    """Steps after which e^-36 of the slowest mode is left, less than rounding leaves of anything."""
    return int(np.ceil(36 * steps_per_e_fold(problem, etas)))


def rounding(problem: LinearProblem, etas: Float[np.ndarray, " etas"] | None = None) -> float:
    """How far rounding may carry weights and outputs, in descent or, without steps, in a direct solution.

    A step adds an error of the weights' size times the unit roundoff for each of its sums over features;
    the slowest mode keeps those of as many steps as it takes to shrink by e. In a direct solution the
    condition number has this part, as it does for steps of 1 / lambda_max.
    """
    sharpest, flattest = curvatures(problem)[[0, -1]]
    kept = steps_per_e_fold(problem, np.array([1 / sharpest]) if etas is None else etas)
    size = np.linalg.norm(problem.start) + np.linalg.norm(problem.y) / np.sqrt(flattest)
    return float(problem.train.shape[1] * np.finfo(float).eps * max(kept, 1.0) * size)


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
