"""Labels of quadratic teachers for random problems, and the test loss of trained students."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.course._instruments import quadratic
from finitewidth.course._instruments.quadratic import Problem
from finitewidth.course._lab.random_problem import RandomProblem

_ROW_SPACE = DirectOptimization()


@dataclass(frozen=True, kw_only=True)
class Teacher(RandomProblem):
    """Sizes of a random problem, the size of the teacher's meta features, and the noise of its labels.

    The noise is relative to what the meta features add to the labels.
    """

    train: int = 10
    features: int = 30
    test: int = 40
    teacher: float
    noise: float


def bend_of(setting: Teacher, i: int) -> tuple[Problem, Float[np.ndarray, " points"]]:
    """Problem i with labels of a linear teacher, and what the teacher's meta features add to the labels.

    The teacher's weights lie in the span of the training features, so that a student can find them.
    """
    problem = quadratic.draw(setting.rng(i), setting.train, setting.test, setting.features)
    w = quadratic.fitted_weights(problem.phi, problem.y)
    z = problem.phi @ w
    linear = problem._replace(y=z[problem.train, None], y_test=z[problem.test, None])
    return linear, setting.teacher / 2 * np.einsum("j,njk,k->n", w, problem.psi, w)


def taught(setting: Teacher, i: int) -> Problem:
    """Problem i with the labels of a quadratic teacher and noise."""
    problem, bend = bend_of(setting, i)
    z = bend + setting.noise * np.std(bend) * setting.rng(i, 1).normal(size=len(bend))
    y, y_test = problem.y + z[problem.train, None], problem.y_test + z[problem.test, None]
    return problem._replace(y=y, y_test=y_test)


def test_loss(problem: Problem, epsilon: float) -> float:
    """Exact test loss of direct optimisation."""
    outputs = quadratic.trained_outputs(problem, epsilon, _ROW_SPACE)[len(problem.y) :]
    return 0.5 * float(np.sum((outputs - problem.y_test) ** 2))
