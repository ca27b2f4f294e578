r"""Training of any model in weight space: gradient descent, gradient flow, and direct optimisation.

A model at fixed points is a function of its weights, $W\mapsto z(W)$, with effective features
$\phi^E = \partial z/\partial W$. Nothing is expanded here: these are the trajectories and solutions that the
nearly-kernel formulas approximate.
"""

import math
import warnings
from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float
from scipy.integrate import solve_ivp

from finitewidth.arrays import AnyArray
from finitewidth.checks import as_columns
from finitewidth.dynamics.algorithms import (
    DirectOptimization,
    GradientDescent,
    GradientFlow,
    SpectralAlgorithm,
)
from finitewidth.models.point_model import PointModel, jacobian_at, outputs_at

# Residuals relative to the labels: what float64 reaches, and where a flow is handed to Newton's method,
# whose error is the square of what is left.
_CONVERGED = 2e-14
_NEARLY = 1e-8
_MOST_STEPS = 5_000_000
_MOST_ITERATIONS = 200
_INTEGRATION = 1e-12


class Endpoint(NamedTuple):
    """Trained weights.

    Attributes
    ----------
    weights
        In the shape they started with.
    residual
        Largest distance of an output from its label.
    steps
        Steps of descent, evaluations of a flow, or iterations of a solver.
    neglected
        What the training leaves out: nothing but the residual.
    """

    weights: Float[Array, "..."]
    residual: float
    steps: int
    neglected: str


def train_weights(
    points: PointModel,
    y: Float[AnyArray, "n out"] | Float[AnyArray, " n"],
    algorithm: SpectralAlgorithm,
    weights: Float[Array, "..."],
) -> Endpoint:
    """Train a model from the given weights on half the sum of squared errors.

    Parameters
    ----------
    points
        The model at the training points, such as `model.at(x_train)`.
    y
        Labels, one column per output.
    algorithm
        `GradientDescent(eta, steps)`, `GradientFlow(time)` or `DirectOptimization(solution, step)`.
    weights
        Where to start; zero for the nearly-kernel formulas without a starting function.
    """
    outputs = jax.eval_shape(points, weights)
    y = jnp.asarray(as_columns("y", y, outputs.shape[0], outputs.dtype))
    if y.shape != outputs.shape:
        raise ValueError(
            f"y has {y.shape[1]} outputs and the weights give {outputs.shape[1]}; they must agree."
        )
    if weights.ndim == 2 and len(weights) > 1:
        rows = [
            train_weights(points, y[:, i : i + 1], algorithm, weights[i : i + 1]) for i in range(len(weights))
        ]
        return Endpoint(
            jnp.concatenate([row.weights for row in rows]),
            max(row.residual for row in rows),
            max(row.steps for row in rows),
            rows[0].neglected,
        )
    if isinstance(algorithm, GradientDescent):
        return _descend(points, y, algorithm, weights)
    if isinstance(algorithm, GradientFlow):
        return _flow(points, y, algorithm, weights)
    if isinstance(algorithm, DirectOptimization):
        return _solve(points, y, algorithm, weights)
    raise ValueError(
        f"algorithm must be GradientDescent, GradientFlow or DirectOptimization, got {algorithm!r}."
    )


def _descend(points: PointModel, y: Array, algorithm: GradientDescent, weights: Array) -> Endpoint:
    J = jacobian_at(points, weights)
    eta = algorithm.resolved(float(np.linalg.eigvalsh(J @ J.T)[-1])).eta
    limit = _MOST_STEPS if algorithm.converged else int(algorithm.steps)
    goal = _CONVERGED * float(jnp.abs(y).max()) if algorithm.converged else 0.0
    # Arrays, so that another step or goal needs no new compilation.
    settings = jnp.asarray(eta), jnp.asarray(goal), jnp.asarray(limit)
    weights, steps, residual = _descent_loop(points, y, weights, *settings)
    if not math.isfinite(float(residual)):
        raise ValueError(
            f"gradient descent with eta={eta:.4g} ran away within {int(steps)} steps although the kernel of "
            "the start allows it: the nonlinear part is too large, lower epsilon or eta."
        )
    return _endpoint(weights, float(residual), int(steps), algorithm.converged, float(jnp.abs(y).max()))


@eqx.filter_jit
def _descent_loop(points: PointModel, y: Array, weights: Array, eta: Array, goal: Array, limit: Array):
    """Steps until the largest residual is below the goal, is not finite, or the limit is reached."""

    def residual(w: Array) -> Array:
        return points(w) - y

    def step(state):
        w, t, _ = state
        e, pull = jax.vjp(residual, w)
        w = w - eta * pull(e)[0]
        return w, t + 1, jnp.abs(e).max()

    def unfinished(state):
        _, t, size = state
        return (t < limit) & (size > goal) & jnp.isfinite(size)

    weights, steps, _ = lax.while_loop(unfinished, step, (weights, 0, jnp.asarray(jnp.finfo(y.dtype).max)))
    return weights, steps, jnp.abs(residual(weights)).max()


def _flow(points: PointModel, y: Array, algorithm: GradientFlow, weights: Array) -> Endpoint:
    def velocity(w: Array) -> Array:
        return _negative_gradient(points, y, w)

    if not algorithm.converged:
        end, evaluations = _integrate(velocity, weights, float(algorithm.time), float(jnp.abs(y).max()))
        return _endpoint(end, float(jnp.abs(points(end) - y).max()), evaluations, False, 1.0)
    J = jacobian_at(points, weights)
    slowest = max(float(np.linalg.eigvalsh(J @ J.T)[0]), 1e-12)
    return _followed(points, y, velocity, weights, 5.0 / slowest)


def _gauss_newton_flow(points: PointModel, y: Array, weights: Array) -> Endpoint:
    def velocity(w: Array) -> Array:
        J, e = jacobian_at(points, w), np.asarray(outputs_at(points, w) - y).ravel()
        return jnp.asarray(-J.T @ np.linalg.solve(J @ J.T, e)).reshape(w.shape)

    return _followed(points, y, velocity, weights, 5.0)


def _followed(
    points: PointModel, y: Array, velocity: Callable[[Array], Array], weights: Array, stretch: float
) -> Endpoint:
    """Follow a flow until little of the residual is left, which full Gauss-Newton steps then remove."""
    scale, evaluations = float(jnp.abs(y).max()), 0
    for _ in range(_MOST_ITERATIONS):
        weights, more = _integrate(velocity, weights, stretch, scale)
        evaluations += more
        if float(jnp.abs(points(weights) - y).max()) < _NEARLY * scale:
            break
    return _solve(points, y, DirectOptimization("gauss-newton"), weights)._replace(steps=evaluations)


def _integrate(
    velocity: Callable[[Array], Array], weights: Array, time: float, scale: float
) -> tuple[Array, int]:
    done = solve_ivp(
        lambda _, w: np.asarray(velocity(jnp.asarray(w).reshape(weights.shape))).ravel(),
        (0.0, time),
        np.asarray(weights, float).ravel(),
        method="DOP853",
        t_eval=[time],
        rtol=_INTEGRATION,
        atol=_INTEGRATION * max(scale, 1e-300),
    )
    if not done.success:
        raise ValueError(f"the gradient flow could not be followed: {done.message}")
    return jnp.asarray(done.y[:, -1]).reshape(weights.shape), int(done.nfev)


@eqx.filter_jit
def _negative_gradient(points: PointModel, y: Array, weights: Array) -> Array:
    z, pull = jax.vjp(points, weights)
    return pull(y - z)[0]


def _solve(points: PointModel, y: Array, algorithm: DirectOptimization, weights: Array) -> Endpoint:
    """Newton's method in the span of the first features, Gauss-Newton, or successive least norms."""
    if algorithm.step == 0:
        return _gauss_newton_flow(points, y, weights)
    start, labels = np.asarray(weights, float).ravel(), np.asarray(y).ravel()
    evaluate = lambda w: (
        np.asarray(outputs_at(points, jnp.asarray(w).reshape(weights.shape))).ravel() - labels
    )
    scale = float(np.abs(labels).max(initial=1e-300))
    first = jacobian_at(points, weights)
    step = algorithm.step
    w, e = start, evaluate(start)
    iterations = 0
    while iterations < _MOST_ITERATIONS / step:
        iterations += 1
        J = jacobian_at(points, jnp.asarray(w).reshape(weights.shape))
        if algorithm.solution == "row-space":
            change = -first.T @ np.linalg.solve(J @ first.T, e)
        elif algorithm.solution == "minimum-norm":
            change = J.T @ np.linalg.solve(J @ J.T, J @ (w - start) - e) - (w - start)
        else:
            change = -step * (J.T @ np.linalg.solve(J @ J.T, e))
        moved, e_moved = w + change, evaluate(w + change)
        if algorithm.solution != "minimum-norm" and not np.linalg.norm(e_moved) < np.linalg.norm(e):
            moved, e_moved = _damped(evaluate, J, w, e, scale)
        settled = np.abs(moved - w).max() <= _CONVERGED * max(1.0, np.abs(moved).max())
        w, e = moved, e_moved
        if np.abs(e).max() <= _CONVERGED * scale and (settled or algorithm.solution != "minimum-norm"):
            break
        if settled:
            break
    return _endpoint(jnp.asarray(w).reshape(weights.shape), float(np.abs(e).max()), iterations, True, scale)


def _damped(
    evaluate: Callable[[np.ndarray], np.ndarray], J: np.ndarray, w: np.ndarray, e: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray]:
    """A Levenberg-Marquardt step: damping grows until the residual falls; no step where none does."""
    kernel = J @ J.T
    damping = 1e-8 * np.trace(kernel) / len(kernel)
    while np.abs(e).max() > _CONVERGED * scale and damping < 1e8 * np.trace(kernel):
        change = -J.T @ np.linalg.solve(kernel + damping * np.eye(len(kernel)), e)
        e_moved = evaluate(w + change)
        if np.linalg.norm(e_moved) < np.linalg.norm(e):
            return w + change, e_moved
        damping *= 10
    return w, e


def _endpoint(weights: Array, residual: float, steps: int, to_the_end: bool, scale: float) -> Endpoint:
    if to_the_end and residual > 1e-6 * scale:
        warnings.warn(
            f"training stopped after {steps} steps with a residual of {residual:.3g}: more points than the "
            "weights can fit, a singular kernel, or an epsilon that is too large.",
            stacklevel=4,
        )
    return Endpoint(weights, residual, steps, f"nothing in epsilon; a residual of {residual:.1g} is left")
