r"""Eigenvectors whose derivatives exist: eigenvalues that agree are moved apart by a ten millionth.

What does not depend on the choice of eigenvectors within a space of equal eigenvalues has derivatives there,
but on the way to them eigenvectors turn at the rate $1/(t_i-t_j)$. With gaps of $10^{-7}$ the terms that
cancel keep nine digits, and the function is that of a matrix as near.
"""

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float

_GAP = 1e-7
# Eigenvalues below this share of the largest count as no smaller when gaps are measured.
_FLOOR = 1e-3


@jax.custom_jvp
def separated_modes(matrix: Float[Array, "n n"]) -> tuple[Float[Array, " n"], Float[Array, "n n"]]:
    """Eigenvalues, in rising order and not negative, and eigenvectors in columns of a symmetric matrix."""
    t, V = jnp.linalg.eigh(matrix)
    return _apart(jnp.maximum(t, 0)), V


@separated_modes.defjvp
def _separated_modes_jvp(primals: tuple, tangents: tuple) -> tuple:
    t, V = separated_modes(primals[0])
    moved = V.T @ tangents[0] @ V
    gap = t[None, :] - t[:, None]
    turned = jnp.where(gap == 0, 0.0, moved / jnp.where(gap == 0, 1.0, gap))
    return (t, V), (jnp.diag(moved), V @ turned)


def _apart(t: Float[Array, " n"]) -> Float[Array, " n"]:
    """The least values that are no smaller than these and have the gaps."""

    def next_one(below: Array, value: Array) -> tuple[Array, Array]:
        here = jnp.maximum(value, below + _GAP * jnp.maximum(below, _FLOOR * t[-1]))
        return here, here

    return jnp.append(t[:1], lax.scan(next_one, t[0], t[1:])[1])
