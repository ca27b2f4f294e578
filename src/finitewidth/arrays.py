"""Arrays of either library: functions that take NumPy's also take JAX's."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

AnyArray = np.ndarray | Array


def as_numbers(name: str, values: Any) -> Array:
    """An array of whole or real numbers; one clear sentence when it cannot be one."""
    if hasattr(values, "toarray"):
        raise ValueError(f"{name} is sparse, and kernels are dense: pass {name}.toarray().")
    if isinstance(values, dict):
        raise ValueError(f"{name} is a dictionary; it must be one array of numbers.")
    try:
        array = jnp.asarray(values)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} is not an array of numbers.") from None
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ValueError(f"{name} must be real, got {array.dtype}.")
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        raise ValueError(f"{name} is not an array of numbers.")
    return array


def check_key(key: Any, name: str = "key") -> None:
    """Refuse what is not one key of `jax.random`."""
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    shape = jnp.shape(key) if typed else None
    raw = isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.ndim == 1
    if raw or (typed and shape == ()):
        return
    given = f"{shape[0]} keys" if shape else f"{key!r}"
    raise TypeError(f"{name} must be one key, such as jax.random.key(0), got {given}.")
