"""How the loss falls during training, averaged over initialisations."""

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.dynamics.algorithms import GradientDescent, GradientFlow
from finitewidth.dynamics.kernel_descent import Spectrum
from finitewidth.prediction.infinite_width import TrainingProblem


class LossCurves(NamedTuple):
    """Expected loss per point, half the mean squared error summed over outputs.

    `at` holds the numbers of steps (gradient descent) or the times (gradient flow).
    """

    at: Float[np.ndarray, " times"]
    train: Float[np.ndarray, " times"]
    test: Float[np.ndarray, " times"] | None


def loss_curves(
    problem: TrainingProblem,
    algorithm: GradientDescent | GradientFlow,
    at: Sequence[float],
    y_test: Float[Array, "test out"] | None = None,
) -> LossCurves:
    """Expected training and test loss after each of the given numbers of steps (or times).

    The spectrum is computed once. In its basis the training residual of every mode shrinks by itself;
    the test loss needs one (test, train) product per time.
    """
    spectrum = Spectrum.of(problem.train.ntk)
    algorithm = algorithm.resolved(float(spectrum.eigenvalues[-1]))
    V, out = spectrum.eigenvectors, problem.y.shape[1]
    labels = V.T @ problem.y
    K_modes = V.T @ problem.train.nngp @ V
    power = jnp.sum(labels**2, axis=1) + out * jnp.diag(K_modes)
    reach = problem.test_train.ntk @ V
    K_reach = problem.test_train.nngp @ V
    train, test = [], []
    for t in at:
        stopped = (
            GradientDescent(algorithm.eta, t) if isinstance(algorithm, GradientDescent) else GradientFlow(t)
        )
        train.append(0.5 * jnp.sum(stopped.residual(spectrum.eigenvalues) ** 2 * power))
        if y_test is not None:
            M = reach * stopped.gain(spectrum.eigenvalues)
            variance = (
                jnp.diag(problem.test.nngp) - 2 * jnp.sum(M * K_reach, axis=1) + jnp.sum((M @ K_modes) * M, axis=1)
            )
            test.append(0.5 * (jnp.sum((M @ labels - y_test) ** 2) + out * jnp.sum(variance)))
    points = len(problem.y), len(problem.test.nngp)
    return LossCurves(
        np.asarray(at, dtype=float),
        np.asarray(train) / points[0],
        None if y_test is None else np.asarray(test) / points[1],
    )
