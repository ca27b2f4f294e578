"""Losses: sums over points and outputs, each with the labels it understands."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Check = Callable[[np.ndarray, tuple[int, int]], str | None]


class Loss(NamedTuple):
    """A loss: its value for (outputs, labels), and what is wrong with labels, if anything."""

    name: str
    value: Callable[[Array, Array], Float[Array, ""]]
    objection: Check


def squared_error(outputs: Array, labels: Array) -> Float[Array, ""]:
    """Half the sum of squared differences."""
    return 0.5 * jnp.sum((outputs - labels) ** 2)


def cross_entropy(outputs: Array, labels: Array) -> Float[Array, ""]:
    """Minus the log-probability of the true classes under the softmax of the outputs."""
    return -jnp.sum(jnp.take_along_axis(jax.nn.log_softmax(outputs), labels[:, None], axis=1))


def logistic(outputs: Array, labels: Array) -> Float[Array, ""]:
    """Sum of log(1 + exp(-y z)) for labels y of -1 and 1."""
    return jnp.sum(jax.nn.softplus(-labels * outputs))


def exponential(outputs: Array, labels: Array) -> Float[Array, ""]:
    """Sum of exp(-y z) for labels y of -1 and 1."""
    return jnp.sum(jnp.exp(-labels * outputs))


def _real(labels: np.ndarray, shape: tuple[int, int]) -> str | None:
    if labels.shape != shape:
        return f"real numbers of shape {shape}, one per point and output"
    return None


def _signs(labels: np.ndarray, shape: tuple[int, int]) -> str | None:
    if labels.shape != shape or not np.isin(labels, (-1, 1)).all():
        return f"labels -1 and 1 of shape {shape}"
    return None


def _classes(labels: np.ndarray, shape: tuple[int, int]) -> str | None:
    points, n_out = shape
    if n_out < 2:
        return "a network with one output per class, so at least two"
    if labels.shape != (points,) or not np.issubdtype(labels.dtype, np.integer):
        return f"whole-number classes of shape ({points},)"
    if labels.min() < 0 or labels.max() >= n_out:
        return f"classes between 0 and {n_out - 1}, one per output"
    return None


LOSSES: dict[str, Loss] = {
    loss.name: loss
    for loss in (
        Loss("mse", squared_error, _real),
        Loss("cross_entropy", cross_entropy, _classes),
        Loss("logistic", logistic, _signs),
        Loss("exponential", exponential, _signs),
    )
}


def as_loss(loss: str | Loss | Callable[[Array, Array], Array]) -> Loss:
    """A `Loss` from its name, itself, or a function of (outputs, labels) that returns one number."""
    if isinstance(loss, Loss):
        return loss
    if callable(loss):
        return Loss(getattr(loss, "__name__", "custom"), loss, lambda labels, shape: None)
    if loss not in LOSSES:
        raise ValueError(f"unknown loss {loss!r}. Known: {', '.join(LOSSES)}; or a function of (outputs, labels).")
    return LOSSES[loss]


def as_labels(loss: Loss, y: Array | np.ndarray | list, shape: tuple[int, int], dtype: jnp.dtype) -> Array:
    """Labels in the form the loss takes, for outputs of the given shape (points, out)."""
    labels = np.asarray(y)
    if labels.dtype.kind not in "biuf":
        raise ValueError(f"y must hold numbers, got {labels.dtype}.")
    if labels.shape[:1] != shape[:1]:
        raise ValueError(f"y has {labels.shape[0] if labels.ndim else 0} labels for {shape[0]} points.")
    if not np.isfinite(labels).all():
        raise ValueError("y holds NaN or infinite values.")
    if loss.name != "cross_entropy" and labels.ndim == 1 and shape[1] == 1:
        labels = labels[:, None]
    objection = loss.objection(labels, shape)
    if objection is not None:
        raise ValueError(
            f"loss {loss.name!r} needs {objection}; y has shape {np.shape(y)}, type {labels.dtype} "
            f"and values from {labels.min():g} to {labels.max():g}."
        )
    return jnp.asarray(labels) if labels.dtype.kind in "iu" and loss.name == "cross_entropy" else jnp.asarray(labels, dtype)
