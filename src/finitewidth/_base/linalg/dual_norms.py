r"""Norms of arrays, and where a linear function is largest on their unit balls.

The dual norm is $|g|_*=\max_{|s|\le1}\langle g,s\rangle$, with the sum over all entries.

| norm of s | dual norm | where the maximum is |
|---|---|---|
| l2 | l2 | $g/|g|_2$ |
| l-infinity | l1 | sign(g) |
| l1 | l-infinity | the sign of the largest entry, there alone |
| spectral | sum of the singular values | $UV^T$ |
"""

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float

from finitewidth._base.arrays import AnyArray
from finitewidth._base.linalg.polar import as_matrix, polar_factor

NORMS = ("l2", "linf", "l1", "spectral")


class DualPair(NamedTuple):
    """The dual norm of g, and a point of the unit ball where <g, s> reaches it."""

    direction: Float[Array, "..."]
    dual_norm: Float[Array, ""]


def check_norm(norm: str) -> None:
    """Refuse an unknown norm."""
    if norm not in NORMS:
        raise ValueError(f"unknown norm {norm!r}. Known: {', '.join(NORMS)}.")


def norm_of(array: Float[AnyArray, "..."], norm: str) -> Float[Array, ""]:
    """The norm of an array."""
    check_norm(norm)
    if norm == "spectral":
        return jnp.linalg.svd(as_matrix("array", array), compute_uv=False)[0]
    sizes = jnp.abs(jnp.asarray(array)).ravel()
    return {"l2": jnp.linalg.norm, "linf": jnp.max, "l1": jnp.sum}[norm](sizes)


def dual_pair(gradient: Float[AnyArray, "..."], norm: str) -> DualPair:
    """Where a linear function is largest on the unit ball of a norm.

    Parameters
    ----------
    gradient
        The linear function g, an array of any shape; a matrix for the spectral norm.
    norm
        "l2", "linf", "l1" or "spectral".
    """
    check_norm(norm)
    if norm == "spectral":
        matrix = as_matrix("gradient", gradient)
        direction = polar_factor(matrix)
        return DualPair(direction, jnp.sum(matrix * direction))
    g = jnp.asarray(gradient)
    sizes = jnp.abs(g)
    if norm == "l2":
        length = jnp.linalg.norm(g.ravel())
        return DualPair(g / jnp.where(length > 0, length, 1), length)
    if norm == "linf":
        return DualPair(jnp.sign(g), sizes.sum())
    largest = jnp.arange(g.size).reshape(g.shape) == jnp.argmax(sizes)
    return DualPair(jnp.where(largest, jnp.sign(g), 0.0), sizes.max())
