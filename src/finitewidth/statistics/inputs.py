"""Checks that a set of inputs can be given to a kernel."""

import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float

from finitewidth.architecture import Layer
from finitewidth.architecture.networks import input_biases

ArrayLike = np.ndarray | Array | list


def as_inputs(name: str, x: ArrayLike, net: Layer) -> Float[Array, "n d"]:
    """x as a floating (points, features) array; one clear sentence when it cannot be one."""
    try:
        x = jnp.asarray(x)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is not an array of numbers.") from None
    if jnp.issubdtype(x.dtype, jnp.complexfloating):
        raise ValueError(f"{name} must be real, got {x.dtype}.")
    if x.dtype not in (jnp.float32, jnp.float64):
        x = x.astype(float)
    if x.ndim != 2:
        hint = f"; reshape it to ({x.shape[0]}, 1) for one feature" if x.ndim == 1 else ""
        raise ValueError(f"{name} must have shape (points, features), got {x.shape}{hint}.")
    if 0 in x.shape:
        raise ValueError(f"{name} is empty: its shape is {x.shape}.")
    if not isinstance(x, Tracer):
        _check_values(name, np.asarray(x), net)
    return x


def _check_values(name: str, x: Float[np.ndarray, "n d"], net: Layer) -> None:
    finite = np.isfinite(x).all(axis=1)
    if not finite.all():
        raise ValueError(
            f"{name} holds NaN or infinite values in {np.sum(~finite)} of {finite.size} rows, "
            f"first in row {np.argmin(finite)}."
        )
    C_b = input_biases(net)
    if C_b is None or isinstance(C_b, Tracer) or C_b > 0:
        return
    dead = ~x.any(axis=1)
    if dead.any():
        raise ValueError(
            f"{name} has a zero vector in row {np.argmax(dead)} ({np.sum(dead)} in all): with C_b = 0 in "
            "the first layer its preactivation has no variance. Remove it, or set C_b > 0."
        )
