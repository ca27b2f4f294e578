r"""Training of any model in weight space: gradient descent, gradient flow, and direct optimisation.

A model at fixed points is a function of its weights, $W\mapsto z(W)$, with effective features
$\phi^E = \partial z/\partial W$. Nothing is expanded here: these are the trajectories and solutions that the
nearly-kernel formulas approximate.
"""

import functools
import math
import warnings
from typing import NamedTuple

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp
import lineax as lx
import numpy as np
import optimistix as optx
from jax import lax
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import as_columns
from finitewidth.algorithms.direct_optimization import DirectOptimization
from finitewidth.algorithms.gradient_descent import GradientDescent
from finitewidth.algorithms.gradient_flow import GradientFlow
from finitewidth.algorithms.interface import SpectralAlgorithm
from finitewidth.architecture.models.point_model import PointModel, jacobian_at, outputs_at

# Residuals relative to the labels: what float64 reaches, and where a flow is handed to Gauss-Newton steps.
# A full step that changes so little leaves the square of it: nothing.
_CONVERGED = 2e-14
_NEARLY = 1e-8
_NO_CHANGE = 1e-10
# A larger residual than this is reported.
_FITTED = 1e-6
_MOST_STEPS = 5_000_000
_MOST_FLOW_STEPS = 100_000
_MOST_ITERATIONS = 50
_INTEGRATION = 1e-12

# Weights, and how many steps led to them.
Trained = tuple[Array, Array]


class Endpoint(NamedTuple):
    """Trained weights.

    Attributes
    ----------
    weights
        In the shape they started with.
    residual
        Largest distance of an output from its label.
    steps
        Steps of descent, of the integrator of a flow, or iterations of a solver.
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
    end, steps = trained(algorithm, points, y, weights)
    residual = _residual(points, y, end)
    if algorithm.converged and not residual <= _FITTED * np.abs(y).max():
        warnings.warn(
            f"training stopped after {steps} steps with a residual of {residual:.3g}: more points than the "
            "weights can fit, a singular kernel, or an epsilon that is too large.",
            stacklevel=2,
        )
    return Endpoint(end, residual, int(steps), f"nothing in epsilon; a residual of {residual:.1g} is left")


@functools.singledispatch
def trained(algorithm: SpectralAlgorithm, points: PointModel, y: Array, weights: Array) -> Trained:
    """What an algorithm makes of the weights; a new one registers here how it is really done."""
    raise ValueError(
        f"algorithm must be GradientDescent, GradientFlow or DirectOptimization, got {algorithm!r}."
    )


@trained.register
def _descend(algorithm: GradientDescent, points: PointModel, y: Array, weights: Array) -> Trained:
    J = jacobian_at(points, weights)
    eta = algorithm.resolved(float(np.linalg.eigvalsh(J @ J.T)[-1])).eta
    limit = _MOST_STEPS if algorithm.converged else int(algorithm.steps)
    goal = _CONVERGED * np.abs(y).max() if algorithm.converged else 0.0
    # Arrays, so that another step or goal needs no new compilation.
    end, steps = _descent_loop(points, y, weights, *(jnp.asarray(v) for v in (eta, goal, limit)))
    if not np.isfinite(end).all():
        raise ValueError(
            f"gradient descent with eta={eta:.4g} ran away within {steps} steps although the kernel of "
            "the start allows it: the nonlinear part is too large, lower epsilon or eta."
        )
    return end, steps


@eqx.filter_jit
def _descent_loop(
    points: PointModel, y: Array, weights: Array, eta: Array, goal: Array, limit: Array
) -> Trained:
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

    begin = weights, jnp.asarray(0), jnp.asarray(jnp.finfo(y.dtype).max)
    return lax.while_loop(unfinished, step, begin)[:2]


@trained.register
def _flow(algorithm: GradientFlow, points: PointModel, y: Array, weights: Array) -> Trained:
    end, steps = _followed(_Gradient(points, y), weights, jnp.asarray(float(algorithm.time)))
    if algorithm.converged:
        end, more = _repeated(_GaussNewton(points, y), end)
        return end, steps + more
    if steps == _MOST_FLOW_STEPS:
        raise ValueError(f"the gradient flow takes more than {_MOST_FLOW_STEPS} steps to t={algorithm.time}.")
    return end, steps


@trained.register
def _solve(algorithm: DirectOptimization, points: PointModel, y: Array, weights: Array) -> Trained:
    """Newton's method in the span of the first features, Gauss-Newton, or successive least norms.

    Where it finds no solution, as in a span that holds none, shortened Gauss-Newton steps in all weights do.
    """
    newton, near, steps = _GaussNewton(points, y), weights, 0
    if algorithm.solution == "minimum-norm":
        return _repeated(_GaussNewton(points, y, origin=weights), weights)
    if algorithm.solution == "row-space":
        newton = _GaussNewton(points, y, span=jnp.asarray(jacobian_at(points, weights)))
    elif algorithm.step == 0:
        near, steps = _followed(newton, weights, jnp.asarray(math.inf))
    elif algorithm.step < 1:
        near, steps = _repeated(newton, weights, jnp.asarray(algorithm.step))
    end, more = _repeated(newton, near)
    if not _residual(points, y, end) <= _FITTED * np.abs(y).max():
        end, more = _least_squares(points, y, near)
    return end, steps + more


class _Gradient(eqx.Module):
    """The negative gradient of the loss."""

    points: PointModel
    y: Array

    def __call__(self, weights: Array) -> Array:
        z, pull = jax.vjp(self.points, weights)
        return pull(self.y - z)[0]


class _GaussNewton(eqx.Module):
    """The change of weights that reaches the labels of the model linearised there.

    It is in the span of the features there, or of the rows of `span`; with an `origin` it leads to the
    weights closest to the origin.
    """

    points: PointModel
    y: Array
    span: Array | None = None
    origin: Array | None = None

    def __call__(self, weights: Array) -> Array:
        J, e = self.points.jacobian(weights), (self.y - self.points(weights)).ravel()
        rows = J if self.span is None else self.span
        back = jnp.zeros_like(weights) if self.origin is None else self.origin - weights
        change = rows.T @ jnp.linalg.solve(J @ rows.T, e - J @ back.ravel())
        return back + change.reshape(weights.shape)


@eqx.filter_jit
def _followed(velocity: _Gradient | _GaussNewton, weights: Array, time: Array) -> Trained:
    """Follow a flow for a time; infinite time ends where little of the residual is left."""
    points, y = velocity.points, velocity.y
    scale = jnp.abs(y).max()

    def arrived(t, w, args, **_):
        return jnp.isinf(time) & (jnp.abs(points(w) - y).max() < _NEARLY * scale)

    run = diffrax.diffeqsolve(
        diffrax.ODETerm(lambda t, w, args: velocity(w)),
        diffrax.Dopri8(),
        *(0.0, time, None, weights),
        stepsize_controller=diffrax.PIDController(_INTEGRATION, _INTEGRATION * scale),
        event=diffrax.Event(arrived),
        max_steps=_MOST_FLOW_STEPS,
        throw=False,
    )
    # Only the end is saved.
    return jax.tree.leaves(run.ys)[0][0], run.stats["num_steps"]


@eqx.filter_jit
def _repeated(newton: _GaussNewton, weights: Array, step: Array | None = None) -> Trained:
    """Repeat a change, or a fraction of it, until it no longer changes the weights."""
    fast = newton.origin is None and step is None
    tolerance = _NO_CHANGE if newton.origin is None else _CONVERGED
    found = optx.fixed_point(
        lambda w, _: w + (1.0 if step is None else step) * newton(w),
        optx.FixedPointIteration(tolerance, tolerance),
        weights,
        max_steps=_MOST_ITERATIONS if fast else 100 * _MOST_ITERATIONS,
        throw=False,
    )
    return found.value, found.stats["num_steps"]


@eqx.filter_jit
def _least_squares(points: PointModel, y: Array, weights: Array) -> Trained:
    """Gauss-Newton steps in all weights, shortened until the residual falls."""
    found = optx.least_squares(
        lambda w, _: (points(w) - y).ravel() / jnp.abs(y).max(),
        optx.Dogleg(_NO_CHANGE, _NO_CHANGE, linear_solver=lx.AutoLinearSolver(well_posed=False)),
        weights,
        options={"jac": "bwd"},
        max_steps=4 * _MOST_ITERATIONS,
        throw=False,
    )
    return found.value, found.stats["num_steps"]


def _residual(points: PointModel, y: Array, weights: Array) -> float:
    return float(np.abs(np.asarray(outputs_at(points, weights)) - y).max())
