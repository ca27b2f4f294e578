"""NumPy where numbers are known, JAX where it follows them through `jit`, `grad` or `vmap`.

JAX stands a *tracer* in the place of a number that it follows. What a tracer is worth can be differentiated
but not looked at: checks of values are passed over, and what must know them says so by `refuse_traced`.
"""

from types import ModuleType
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.core import Tracer
from jaxtyping import Array

from finitewidth._base.checks import plain

# One number, of Python, NumPy or JAX.
AnyNumber = float | int | np.generic | np.ndarray | Array


def holds_tracer(*trees: Any) -> bool:
    """Whether JAX follows some number in here."""
    return any(isinstance(leaf, Tracer) for leaf in jax.tree.leaves(trees))


def traced(*trees: Any) -> bool:
    """Whether JAX follows some number in here, or every operation, also one on known numbers."""
    return holds_tracer(trees) or isinstance(lax.neg(np.float32(0)), Tracer)


def is_traced_number(value: Any) -> bool:
    """Whether this is one real number that JAX follows."""
    return isinstance(value, Tracer) and value.ndim == 0 and value.dtype.kind in "iuf"


def untraceable(what: str) -> ValueError:
    """What something says that must look at numbers which JAX follows."""
    return ValueError(
        f"{what} must know the values of its inputs, which jax.jit, jax.grad and jax.vmap hide: call it "
        "outside of them."
    )


def refuse_traced(what: str, *trees: Any) -> None:
    """Refuse what must look at these numbers, where JAX follows them."""
    if holds_tracer(trees):
        raise untraceable(what)


def library(*arrays: Any) -> ModuleType:
    """`jax.numpy` for tracers and `numpy` for all other arrays."""
    return jnp if holds_tracer(arrays) else np


def as_known(number: Any) -> Any:
    """A number whose value is known as one of Python; a tracer as it is."""
    return number if holds_tracer(number) else float(number)


def known(array: Any) -> Any:
    """An array whose numbers are known as one of NumPy; a tracer as it is."""
    return array if holds_tracer(array) else np.asarray(array)


def put(array: Any, index: Any, values: Any) -> Any:
    """The array with other values at an index; an array of NumPy is changed in place."""
    if holds_tracer(array, values):
        return jnp.asarray(array).at[index].set(values)
    array[index] = values
    return array


def added(array: Any, index: Any, values: Any) -> Any:
    """The array with values added at an index; an array of NumPy is changed in place."""
    if holds_tracer(array, values):
        return jnp.asarray(array).at[index].add(values)
    array[index] += values
    return array


def einsum(subscripts: str, *operands: Any, **options: Any) -> Any:
    """`einsum` of the library that the operands need."""
    return library(*operands).einsum(subscripts, *operands, **options)


class Setting(eqx.Module):
    """A number among settings: static where it is known, a leaf of the pytree where JAX follows it."""

    known: Any = eqx.field(static=True)
    followed: Array | None

    @classmethod
    def of(cls, value: Any) -> "Setting":
        """A word, a number of Python, NumPy or JAX, or a tracer."""
        return cls(None, value) if isinstance(value, Tracer) else cls(plain(value), None)

    @property
    def value(self) -> Any:
        """The number itself."""
        return self.known if self.followed is None else self.followed
