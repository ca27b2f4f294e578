"""Training with importance weights: logistic regression to times beyond any number of steps, and networks."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, PyTree
from scipy.integrate import solve_ivp

from finitewidth._base.arrays import AnyArray
from finitewidth._base.checks import check_positive
from finitewidth._base.follow import follow
from finitewidth.architecture.layer import Layer
from finitewidth.networks.losses import as_labels, as_loss
from finitewidth.networks.models import Apply, Inputs, Model, as_model, as_points, check_arguments
from finitewidth.networks.training.descent import Descent, Weights
from finitewidth.networks.training.optimizers import Optimizer, as_optimizer
from finitewidth.networks.training.training import DivergenceError, check_lengths

_MOST_NEWTON_STEPS = 5000


def _margins(x: AnyArray, y: AnyArray, weights: AnyArray) -> tuple[np.ndarray, np.ndarray]:
    """y_i x_i, and the weights divided by the number of points."""
    x, y, weights = np.asarray(x, float), np.asarray(y, float), np.asarray(weights, float)
    if x.ndim != 2 or y.shape != (len(x),) or weights.shape != (len(x),):
        raise ValueError(
            f"x, y and weights have shapes {x.shape}, {y.shape} and {weights.shape}; they must be (points, "
            "features), (points,) and (points,)."
        )
    if not np.isin(y, (-1, 1)).all() or not (weights > 0).all():
        raise ValueError("y must hold labels -1 and 1, and weights must be positive.")
    return x * y[:, None], weights / len(x)


def logistic_flow(
    x: Float[AnyArray, "n d"],
    y: AnyArray,
    weights: Float[AnyArray, " n"],
    log_times: Float[AnyArray, " times"],
) -> Float[np.ndarray, "times d"]:
    r"""Gradient flow of $\frac1n\sum_iw_i\log(1+e^{-y_i\theta\cdot x_i})$ from zero, at the times $e^{\tau}$.

    It is integrated in $\tau=\log t$, so that times such as $10^{200}$ are reached.
    """
    z, w = _margins(x, y, weights)
    times = np.asarray(log_times, float)
    if times.ndim != 1 or not (np.diff(times) > 0).all():
        raise ValueError(f"log_times must be ascending, got {times.tolist()}.")

    def pull(tau: float, theta: np.ndarray) -> np.ndarray:
        """t w_i / (1 + exp(m_i)) of every point."""
        return w * np.exp(tau - np.logaddexp(0, z @ theta))

    def slope(tau: float, theta: np.ndarray) -> np.ndarray:
        return z.T @ pull(tau, theta)

    def jacobian(tau: float, theta: np.ndarray) -> np.ndarray:
        inside = pull(tau, theta) / (1 + np.exp(-z @ theta))
        return -(z.T * inside) @ z

    # Before this time a step of the flow is too short to matter.
    first = -12.0
    run = solve_ivp(
        slope,
        (first, times[-1]),
        np.exp(first) * (z.T @ w) / 2,
        method="BDF",
        t_eval=times,
        jac=jacobian,
        rtol=1e-9,
        atol=1e-10,
    )
    if not run.success:
        raise ValueError(f"the flow could not be followed to log t = {times[-1]:g}: {run.message}")
    return run.y.T


def ridge_logistic(
    x: Float[AnyArray, "n d"], y: AnyArray, weights: Float[AnyArray, " n"], ridge: float | int
) -> Float[np.ndarray, " d"]:
    r"""The minimum of $\frac1n\sum_iw_i\log(1+e^{-y_i\theta\cdot x_i})+\frac r2|\theta|^2$.

    It is found by Newton's method. A ridge as small as 1e-300 is allowed. Without a ridge the data must not
    be separable.
    """
    z, w = _margins(x, y, weights)
    if not (np.isreal(ridge) and (ridge == 0 or 1e-300 <= ridge < np.inf)):
        raise ValueError(f"ridge must be 0 or at least 1e-300, got {ridge!r}.")
    # Divided by the ridge the gradient has the size of theta, however small the ridge is.
    scale, spring = (ridge, 1.0) if ridge else (1.0, 0.0)
    theta = np.zeros(z.shape[1])
    for _ in range(_MOST_NEWTON_STEPS):
        margin = z @ theta
        pull = np.exp(np.log(w / scale) - np.logaddexp(0, margin))
        gradient = spring * theta - z.T @ pull
        hessian = spring * np.eye(len(theta)) + (z.T * (pull / (1 + np.exp(-margin)))) @ z
        if not ridge and (margin.min() > 30 or np.linalg.cond(hessian) > 1e14):
            raise ValueError(
                "the data are separable and there is no ridge: the loss has no minimum, pass ridge > 0."
            )
        step = np.linalg.solve(hessian, gradient)
        # A margin that changes by more than two leaves the range of the quadratic model, unless it is large.
        allowed = 2 + 0.1 * np.maximum(margin, 0)
        theta = theta - step / max(1.0, (np.abs(z @ step) / allowed).max())
        if np.linalg.norm(step) <= 1e-10 * max(1.0, np.linalg.norm(theta)):
            return theta
    raise ValueError(f"Newton's method did not end within {_MOST_NEWTON_STEPS} steps.")


class WeightedTraining(NamedTuple):
    """One network trained twice from one start, with importance weights and without."""

    times: Int[np.ndarray, " records"]
    """Steps."""
    different_decisions: Float[np.ndarray, " records"]
    """Share of the test points that the two classify differently."""
    probability_gap: Float[np.ndarray, " records"]
    """Mean over the test points of the difference of the two probabilities of class 1."""
    train_errors: Float[np.ndarray, "records 2"]
    """Shares of training points on the wrong side, with weights and without."""


def train_weighted(
    apply_or_net: Layer | Apply | Model,
    params: PyTree,
    x: Inputs,
    y: Inputs,
    weights: Float[AnyArray, " points"],
    x_test: Inputs,
    *,
    steps: int,
    optimizer: optax.GradientTransformation,
    weight_decay: float | int = 0.0,
    record_every: int | None = None,
) -> WeightedTraining:
    r"""Train a network with one output on weighted and on plain logistic loss, and compare their decisions.

    The loss is $\frac1n\sum_iw_i\log(1+e^{-y_if(x_i)})+\frac r2|\theta|^2$, with the weights divided by
    their mean.

    Parameters
    ----------
    apply_or_net, params
        A network or a function of (params, x) with one output, and where training starts.
    x, y
        Training points and labels -1 and 1.
    weights
        Importance of each point, positive.
    x_test
        Points on which decisions are compared.
    steps
        Steps in full batches.
    optimizer
        An Optax transformation, such as `optax.sgd(0.1)`.
    weight_decay
        r.
    record_every
        Steps between two records.
    """
    model = as_model(apply_or_net)
    x, x_test = as_points("x", x, model), as_points("x_test", x_test, model)
    check_arguments(model, params, x)
    outputs = jax.eval_shape(model, params, x)
    y = as_labels(as_loss("logistic"), y, outputs.shape, outputs.dtype)
    if outputs.shape[1] != 1:
        raise ValueError(f"the network must have one output for two classes, got {outputs.shape[1]}.")
    given = np.asarray(weights, float)
    if given.shape != (len(x),) or not ((given > 0) & np.isfinite(given)).all():
        raise ValueError(
            f"weights must be {len(x)} positive numbers, one per point, got shape {given.shape}."
        )
    if weight_decay:
        check_positive("weight_decay", weight_decay)
    every = check_lengths(steps, record_every)
    pair = jnp.asarray(np.stack([given / given.mean(), np.ones(len(x))]), outputs.dtype)
    stepper = as_optimizer(optimizer, None, model, params, x.shape[1:], 1.0)
    moving = _Weighted(
        model=model,
        params=params,
        optimizer=stepper,
        x=x,
        y=y,
        x_test=x_test,
        decay=jnp.asarray(weight_decay),
    )
    path = follow(moving, steps=steps - steps % every, every=every, copies=pair)
    tests, errors = path.seen
    if not np.isfinite(tests).all():
        raise DivergenceError("training diverged: use a smaller learning rate in the optimizer.")
    probability = 0.5 * (1 + np.tanh(tests / 2))
    return WeightedTraining(
        path.times,
        np.mean((tests[0] > 0) != (tests[1] > 0), axis=1),
        np.mean(np.abs(probability[0] - probability[1]), axis=1),
        errors.T,
    )


class _Weighted(Descent):
    """Logistic loss with weights of the points, which each copy has for itself, and weight decay."""

    model: Model
    params: PyTree
    optimizer: Optimizer
    x: Array
    y: Array
    x_test: Array
    decay: Array

    def loss(self, params: PyTree, own: Array, drawn: None) -> Float[Array, ""]:
        fit = jnp.mean(own * jax.nn.softplus(-self.y * self.model(params, self.x))[:, 0])
        return fit + self.decay / 2 * sum(jnp.sum(leaf**2) for leaf in jax.tree.leaves(params))

    def look(self, state: Weights, own: Array) -> tuple[Array, Array]:
        """Outputs at the test points, and the share of training points on the wrong side."""
        wrong = jnp.mean(self.y * self.model(state.params, self.x) <= 0)
        return self.model(state.params, self.x_test)[:, 0], wrong
