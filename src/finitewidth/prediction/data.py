"""Checks of a training set."""

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.statistics.inputs import ArrayLike


def as_targets(y: ArrayLike, points: int, dtype: jnp.dtype) -> Float[Array, "train out"]:
    """Targets as a (points, outputs) array of the inputs' precision."""
    try:
        y = jnp.asarray(y, dtype=dtype)
    except (TypeError, ValueError):
        raise ValueError("y_train is not an array of numbers.") from None
    if y.ndim == 1:
        y = y[:, None]
    if y.ndim != 2 or y.shape[0] != points or y.shape[1] == 0:
        raise ValueError(f"y_train has shape {y.shape}; {points} training points need ({points},) or ({points}, outputs).")
    bad = ~np.isfinite(np.asarray(y)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"y_train holds NaN or infinite values in {bad.sum()} of {points} rows, first in row {np.argmax(bad)}."
        )
    return y
