"""Losses: sums over points and outputs, each with the labels it understands."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

Shape = tuple[int, int]


class Loss(NamedTuple):
    """A loss: its value for (outputs, labels), and labels made fit for outputs of a shape (points, out)."""

    name: str
    value: Callable[[Array, Array], Float[Array, ""]]
    labels: Callable[[np.ndarray, Shape], np.ndarray]


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


def _as_given(labels: np.ndarray, shape: Shape) -> np.ndarray:
    return labels


def _real(labels: np.ndarray, shape: Shape) -> np.ndarray:
    return _per_output("mse", labels, shape, f"real numbers of shape {shape}, one per point and output")


def _signs(labels: np.ndarray, shape: Shape) -> np.ndarray:
    needed = f"labels -1 and 1 of shape {shape}"
    if not np.isin(labels, (-1, 1)).all():
        raise _mismatch("logistic or exponential", needed, labels)
    return _per_output("logistic or exponential", labels, shape, needed)


def _per_output(loss: str, labels: np.ndarray, shape: Shape, needed: str) -> np.ndarray:
    if labels.ndim == 1 and shape[1] == 1:
        labels = labels[:, None]
    if labels.shape != shape:
        raise _mismatch(loss, needed, labels)
    return labels


def _classes(labels: np.ndarray, shape: Shape) -> np.ndarray:
    points, n_out = shape
    if n_out < 2:
        raise ValueError(
            "loss cross_entropy needs a network with one output per class; this one has a single output."
        )
    if labels.shape != (points,) or labels.dtype.kind not in "iu":
        raise _mismatch("cross_entropy", f"whole-number classes of shape ({points},)", labels)
    if labels.min() < 0 or labels.max() >= n_out:
        raise _mismatch("cross_entropy", f"classes between 0 and {n_out - 1}, one per output", labels)
    return labels


def _mismatch(loss: str, needed: str, labels: np.ndarray) -> ValueError:
    return ValueError(
        f"loss {loss} needs {needed}; y has shape {labels.shape}, type {labels.dtype} "
        f"and values from {labels.min():g} to {labels.max():g}."
    )


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
        return Loss(getattr(loss, "__name__", "custom"), loss, _as_given)
    if loss not in LOSSES:
        raise ValueError(
            f"unknown loss {loss!r}. Known: {', '.join(LOSSES)}; or a function of (outputs, labels)."
        )
    return LOSSES[loss]


def as_labels(loss: Loss, y: Array | np.ndarray | list, shape: Shape, dtype: jnp.dtype) -> Array:
    """Labels in the form the loss takes, for outputs of the given shape (points, out)."""
    try:
        labels = np.asarray(y)
    except ValueError:
        raise ValueError("y is not an array of numbers.") from None
    if labels.dtype.kind not in "iuf":
        raise ValueError(f"y must hold numbers, got {labels.dtype}.")
    if labels.ndim == 0 or len(labels) != shape[0]:
        raise ValueError(f"y has {len(labels) if labels.ndim else 0} labels for {shape[0]} points.")
    if not np.isfinite(labels).all():
        raise ValueError("y holds NaN or infinite values.")
    labels = loss.labels(labels, shape)
    return jnp.asarray(labels, None if labels.dtype.kind in "iu" else dtype)


def refuse_several_losses(loss: Loss, outputs: jax.ShapeDtypeStruct, y: Array) -> None:
    """Say that a loss must be one number."""
    value = jax.eval_shape(loss.value, outputs, y)
    shape = getattr(value, "shape", None)
    if shape != ():
        raise ValueError(f"loss {loss.name!r} must return one number, a sum over points, got shape {shape}.")
