"""The axes of an array that count the units of a layer, and the same array with these axes last."""

import math

import jax.numpy as jnp
from jax.extend.core import JaxprEqn
from jaxtyping import Array

Axes = tuple[int, ...]


def units_last(value: Array, units: Axes) -> Array:
    """(positions..., units): the axes of the units in one, at the end; positions of length 1 are left out."""
    positions = [axis for axis in range(value.ndim) if axis not in units]
    kept = [value.shape[axis] for axis in positions if value.shape[axis] != 1]
    count = [math.prod(value.shape[axis] for axis in units)] if units else []
    return jnp.transpose(value, (*positions, *units)).reshape(*kept, *count)


def restored(value: Array, units: Axes, shape: tuple[int, ...]) -> Array:
    """The array of this shape from which `units_last` made the value."""
    order = [axis for axis in range(len(shape)) if axis not in units] + list(units)
    backwards = sorted(range(len(shape)), key=lambda place: order[place])
    return jnp.transpose(value.reshape([shape[axis] for axis in order]), backwards)


def follow(eqn: JaxprEqn, units: Axes | None, before: tuple[int, ...], after: tuple[int, ...]) -> Axes | None:
    """Where the units stand after an operation, or None when they stand nowhere by themselves any more."""
    if units is None:
        return None
    name, settings = eqn.primitive.name, eqn.params
    if name == "transpose":
        return tuple(settings["permutation"].index(axis) for axis in units)
    if name == "squeeze":
        left = [axis for axis in range(len(before)) if axis not in settings["dimensions"]]
        return tuple(left.index(axis) for axis in units) if set(units) <= set(left) else None
    if name == "broadcast_in_dim":
        return tuple(int(settings["broadcast_dimensions"][axis]) for axis in units)
    if name == "reshape" and before != after:
        return _through_reshape(units, before, after)
    same = len(before) == len(after) and all(before[axis] == after[axis] for axis in units)
    return units if same else None


def _through_reshape(units: Axes, before: tuple[int, ...], after: tuple[int, ...]) -> Axes | None:
    """Axes of length 1 come and go; anything else loses the units."""
    if [n for n in before if n != 1] != [n for n in after if n != 1] or any(
        before[axis] == 1 for axis in units
    ):
        return None
    long_before = [axis for axis, n in enumerate(before) if n != 1]
    long_after = [axis for axis, n in enumerate(after) if n != 1]
    return tuple(long_after[long_before.index(axis)] for axis in units)
