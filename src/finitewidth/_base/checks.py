"""Arguments that cannot be meant: one sentence with the argument, its value and what would be right."""

import itertools
import math
import operator
import warnings
from collections.abc import Sequence
from numbers import Real
from pathlib import Path
from typing import Any, TypeGuard

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Float


def is_number(value: Any) -> TypeGuard[float]:
    """Whether this is one real number, of Python, NumPy or JAX, whose value is known."""
    if isinstance(value, np.ndarray | jax.Array):
        return value.ndim == 0 and value.dtype.kind in "iuf" and not isinstance(value, Tracer)
    return isinstance(value, Real) and not isinstance(value, bool)


def plain(value: Any) -> Any:
    """A number of NumPy or JAX as one of Python, which can be a static part of a pytree; others unchanged."""
    # NumPy's float64 is a float of Python and yet counts as an array.
    if is_number(value) and isinstance(value, np.generic | np.ndarray | jax.Array):
        return value.item()
    return value


def no_file(path: Path) -> str | None:
    """Why a path is no file to read from, in words that follow its name; None if it is one."""
    if path.is_file():
        return None
    if path.is_dir():
        return "is a directory, not a file"
    if path.exists():
        return "is a pipe or a device, not a file: write what it gives into a file first"
    return "does not exist (it is a link to nothing)" if path.is_symlink() else "does not exist"


def check_whole(name: str, value: Any, least: int = 1) -> None:
    """Refuse what is not a whole number of at least some size."""
    try:
        allowed = not isinstance(value, bool) and operator.index(value) >= least
    except TypeError:
        allowed = False
    if not allowed:
        raise ValueError(f"{name} must be a whole number of at least {least}, got {value!r}.")


def check_widths(widths: Sequence[int]) -> tuple[int, ...]:
    """Refuse fewer than two widths, and widths that do not rise."""
    widths = tuple(int(width) for width in widths)
    if len(widths) < 2 or widths[0] < 1 or any(a >= b for a, b in itertools.pairwise(widths)):
        raise ValueError(f"widths must be at least two rising whole numbers, got {widths}.")
    return widths


def check_positive(name: str, value: Any) -> None:
    """Refuse what is not a positive, finite number."""
    if not (is_number(value) and 0 < value < math.inf):
        raise ValueError(f"{name} must be a positive number, got {value!r}.")


def check_ridge(ridge: Any) -> None:
    """Refuse what is not the strength of a penalty."""
    if not (is_number(ridge) and 0 <= ridge < math.inf):
        raise ValueError(f"ridge must be zero or more, and finite, got {ridge!r}.")


def as_number(name: str, value: Any) -> float:
    """One finite number as a plain one."""
    if not (is_number(value) and math.isfinite(value)):
        raise ValueError(f"{name} must be a finite number, got {value!r}.")
    return float(value)


def as_numbers(name: str, values: Any) -> Array:
    """An array of whole or real numbers."""
    if hasattr(values, "toarray"):
        raise ValueError(f"{name} is sparse, and kernels are dense: pass {name}.toarray().")
    if isinstance(values, dict):
        raise ValueError(f"{name} is a dictionary; it must be one array of numbers.")
    try:
        with warnings.catch_warnings():
            # NumPy takes a word for the name of a type, perhaps of one that is going away.
            warnings.simplefilter("ignore", DeprecationWarning)
            array = jnp.asarray(values)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        lengths = (
            [len(row) for row in values if hasattr(row, "__len__")]
            if isinstance(values, list | tuple)
            else []
        )
        ragged = (
            f": its rows have between {min(lengths)} and {max(lengths)} entries"
            if len(set(lengths)) > 1
            else ""
        )
        raise ValueError(f"{name} is not an array of numbers{ragged}.") from None
    if jnp.issubdtype(array.dtype, jnp.complexfloating):
        raise ValueError(f"{name} must be real, got {array.dtype}.")
    if not (jnp.issubdtype(array.dtype, jnp.number) or array.dtype == bool):
        raise ValueError(f"{name} is not an array of numbers.")
    return array


def as_targets(y: Any, points: int, dtype: jnp.dtype, name: str = "y_train") -> Float[Array, "points out"]:
    """Targets as a (points, outputs) array of the inputs' precision."""
    y = as_numbers(name, y).astype(dtype)
    if y.ndim == 1:
        y = y[:, None]
    if y.ndim != 2 or y.shape[0] != points or y.shape[1] == 0:
        raise ValueError(
            f"{name} has shape {y.shape}; {points} points need ({points},) or ({points}, outputs)."
        )
    bad = np.zeros(points, bool) if isinstance(y, Tracer) else ~np.isfinite(np.asarray(y)).all(axis=1)
    if bad.any():
        raise ValueError(
            f"{name} holds NaN or infinite values in {bad.sum()} of {points} rows, "
            f"first in row {np.argmax(bad)}."
        )
    return y


def as_columns(name: str, values: Any, points: int, dtype: np.dtype) -> Float[np.ndarray, "points out"]:
    """Labels or outputs as finite columns of NumPy, one per output."""
    return np.asarray(as_targets(values, points, dtype, name))


def as_precision(dtype: Any) -> jnp.dtype:
    """A type of real numbers."""
    try:
        found = jnp.zeros((), dtype).dtype
    except TypeError:
        found = None
    if found is None or not jnp.issubdtype(found, jnp.floating):
        raise ValueError(f"dtype must be float64 or float32, got {dtype!r}.")
    return found


def check_key(key: Any, name: str = "key") -> None:
    """Refuse what is not one key of `jax.random`."""
    typed = isinstance(key, jax.Array) and jnp.issubdtype(key.dtype, jax.dtypes.prng_key)
    shape = jnp.shape(key) if typed else None
    raw = isinstance(key, jax.Array | np.ndarray) and key.dtype == np.uint32 and key.ndim == 1
    if raw or (typed and shape == ()):
        return
    given = f"{shape[0]} keys" if shape else f"{key!r}"
    raise TypeError(f"{name} must be one key, such as jax.random.key(0), got {given}.")
