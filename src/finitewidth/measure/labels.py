"""Inputs, labels and the loss they belong to."""

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from finitewidth.networks.losses import as_labels, as_loss

Loss = str | Callable[[Any, Any], Any]
NAMES = ("cross_entropy", "mse")


class Data(NamedTuple):
    """Inputs and labels of so many points, and the loss."""

    x: Any
    y: np.ndarray | None
    points: int
    loss: Loss | None


def as_data(x: Any, y: Any, loss: Loss | None, dtype: Any, shape_of: Callable[[Any], tuple]) -> Data:
    """Data that fit a model, whose weights have a precision and whose outputs for some inputs a shape."""
    x, points = as_inputs(x, dtype)
    try:
        shape = shape_of(x)
    except (TypeError, ValueError, RuntimeError) as error:
        shapes = ", ".join(str(part.shape) for part in jax.tree.leaves(x))
        reason = str(error).partition("\n")[0].rstrip(".")
        raise ValueError(f"the model does not take inputs of shape {shapes}: {reason}.") from error
    if not shape or shape[0] != points:
        raise ValueError(
            f"the model turned {points} inputs into shape {shape}; its first axis must be the inputs."
        )
    out = int(np.prod(shape[1:]))
    y = None if y is None else np.asarray(y.detach().cpu() if hasattr(y, "detach") else y)
    loss = loss_name(loss, y, out)
    if y is not None and loss is not None:
        y = np.asarray(as_labels(as_loss(loss), y, (points, out), dtype))
    return Data(x, y, points, loss)


def as_inputs(x: Any, dtype: Any) -> tuple[Any, int]:
    """Inputs as arrays of NumPy, real numbers in the weights' precision, and the number of points."""
    arrays = jax.tree.map(lambda part: _as_array(part, dtype), x, is_leaf=lambda part: isinstance(part, list))
    leaves = jax.tree.leaves(arrays)
    counts = sorted({len(leaf) if leaf.ndim else 0 for leaf in leaves})
    if not leaves or 0 in counts:
        raise ValueError("x must have shape (points, ...) with at least one point.")
    if len(counts) > 1:
        raise ValueError(f"x has parts with {counts[0]} and with {counts[-1]} points; all need as many.")
    return arrays, counts[0]


def _as_array(part: Any, dtype: Any) -> np.ndarray:
    array = np.asarray(part.detach().cpu() if hasattr(part, "detach") else part)
    if array.dtype.kind not in "iufb":
        raise ValueError(f"x must hold numbers, got {array.dtype}.")
    if array.dtype.kind == "f":
        array = array.astype(dtype, copy=False)
        if not np.isfinite(array).all():
            raise ValueError("x holds NaN or infinite values.")
    return array


def loss_name(loss: Loss | None, y: np.ndarray | None, outputs: int) -> Loss | None:
    """The loss that was named, or the one that fits the labels: classes for several outputs, else numbers."""
    if isinstance(loss, str) and loss not in NAMES:
        raise ValueError(f"loss must be {' or '.join(map(repr, NAMES))} or a function, got {loss!r}.")
    if y is None or loss is not None:
        return loss
    classes = y.ndim == 1 and np.issubdtype(y.dtype, np.integer) and outputs > 1
    return "cross_entropy" if classes else "mse"


def check_weights(weights: dict[str, np.ndarray]) -> None:
    """Refuse weights that are not finite, or too coarse for second derivatives."""
    for name, weight in weights.items():
        if weight.dtype not in (np.float32, np.float64):
            raise ValueError(
                f"the weights {name} are {weight.dtype}; second derivatives need float32 or float64."
            )
        if not np.isfinite(weight).all():
            raise ValueError(f"the weights {name} hold NaN or infinite values.")
