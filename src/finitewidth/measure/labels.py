"""Labels and the loss they belong to."""

import numpy as np

from finitewidth.measure.specimen import Loss

NAMES = ("cross_entropy", "mse")


def loss_name(loss: Loss | None, y: np.ndarray | None, outputs: int) -> Loss | None:
    """The loss that was named, or the one that fits the labels: classes for several outputs, else numbers."""
    if y is None:
        return None
    if loss is None:
        classes = y.ndim == 1 and np.issubdtype(y.dtype, np.integer) and outputs > 1
        return "cross_entropy" if classes else "mse"
    if isinstance(loss, str) and loss not in NAMES:
        raise ValueError(f"loss must be {' or '.join(map(repr, NAMES))} or a function, got {loss!r}.")
    return loss
