"""Lanczos' method inside of JAX programs: one eigenpair of a symmetric operator, with its error."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from matfree.decomp import tridiag_sym


class LeadingPair(NamedTuple):
    """An approximate eigenpair; an exact eigenvalue is at most `error` away."""

    value: Float[Array, ""]
    error: Float[Array, ""]
    vector: Float[Array, " n"]


def leading_pair(
    product: Callable[[Array], Array],
    start: Float[Array, " n"],
    *,
    products: int,
    rounds: int,
    tolerance: float,
    by: Callable[[Array], Array] = jnp.abs,
) -> LeadingPair:
    """The eigenpair whose value is largest in size, or by another function of the eigenvalues.

    Parameters
    ----------
    product
        Of the operator with a vector.
    start
        A vector that is not orthogonal to the eigenvector.
    products
        In one round, which starts with the vector that the last one has found.
    rounds
        At most so many; fewer if the error is below the tolerance before.
    tolerance
        Of the error, relative to the eigenvalue.
    by
        What is largest: the size by default, or the value itself.
    """
    decompose = tridiag_sym(min(products, start.size), custom_vjp=False)

    def improve(state: tuple[Array, LeadingPair]) -> tuple[Array, LeadingPair]:
        count, (_, _, v) = state
        basis, tridiagonal, *_ = (jnp.asarray(part) for part in decompose(product, v))
        # A space that the operator maps to itself ends early: the rest of the decomposition is 0 / 0.
        values, vectors = jnp.linalg.eigh(jnp.nan_to_num(tridiagonal))
        best = jnp.argmax(by(values))
        v = vectors[:, best] @ jnp.nan_to_num(basis)
        left = jnp.linalg.norm(product(v) - values[best] * v)
        # What is left may vanish; the eigenvalue is rounded all the same.
        rounding = 4 * jnp.finfo(v.dtype).eps * jnp.abs(values[best])
        return count + 1, LeadingPair(values[best], left + rounding, v)

    def unfinished(state: tuple[Array, LeadingPair]) -> Array:
        count, (value, error, _) = state
        return (count < rounds) & (error > tolerance * jnp.abs(value))

    nothing = jnp.zeros((), start.dtype), jnp.full((), jnp.inf, start.dtype)
    return jax.lax.while_loop(unfinished, improve, (jnp.asarray(0), LeadingPair(*nothing, start)))[1]
