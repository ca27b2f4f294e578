r"""A function of a symmetric matrix, $f(A)=V f(t) V^T$, whose derivative allows equal eigenvalues.

Daleckii and Krein: along $\dot A$ the function moves by $V\,(f[t_i,t_j]\circ V^T\dot A V)\,V^T$ with the
divided differences $f[a,b]=\frac{f(a)-f(b)}{a-b}$, and $f[a,a]=f'(a)$. Where two eigenvalues nearly agree the
quotient keeps no digits; there it is the mean slope between them, $f[a,b]=\int_0^1f'(b+s\,(a-b))\,ds$.
Derivatives of eigenvectors, which the same gaps divide, do not occur.
"""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree

# f(settings, eigenvalues), elementwise in the eigenvalues.
Filter = Callable[[PyTree, Array], Array]

# Between eigenvalues as near as eps^(1/5) of their size this rule knows a slope to rounding.
_NODES, _WEIGHTS = ((a.tolist()) for a in np.polynomial.legendre.leggauss(4))
_NEAR = 0.2


@functools.partial(jax.custom_jvp, nondiff_argnums=(0,))
def matrix_function(filtered: Filter, settings: PyTree, matrix: Float[Array, "n n"]) -> Float[Array, "n n"]:
    """The function of a positive semi-definite matrix; eigenvalues that rounding made negative count as zero.

    Parameters
    ----------
    filtered
        The function of (settings, eigenvalues).
    settings
        Numbers that the function depends on; it is differentiable in them too.
    matrix
        Symmetric.
    """
    t, V = _modes(matrix)
    return (V * filtered(settings, t)) @ V.T


@matrix_function.defjvp
def _matrix_function_jvp(filtered: Filter, primals: tuple, tangents: tuple) -> tuple[Array, Array]:
    (settings, matrix), (d_settings, d_matrix) = primals, tangents
    t, V = _modes(matrix)
    f, d_f = jax.jvp(lambda s: filtered(s, t), (settings,), (d_settings,))
    moved = divided_differences(lambda u: filtered(settings, u), t) * (V.T @ d_matrix @ V)
    return (V * f) @ V.T, V @ (moved + jnp.diag(d_f)) @ V.T


def divided_differences(function: Callable[[Array], Array], t: Float[Array, " n"]) -> Float[Array, "n n"]:
    """f[t_i, t_j] of an elementwise function at eigenvalues that are not negative."""
    a, b = t[:, None], t[None, :]
    eps, gap, f = jnp.finfo(t.dtype).eps, a - b, function(t)
    near = jnp.abs(gap) <= eps**_NEAR * jnp.maximum(a, b) + jnp.sqrt(eps) * jnp.max(t)
    quotient = (f[:, None] - f[None, :]) / jnp.where(near, 1, gap)
    return jnp.where(near, _mean_slope(function, a, b), quotient)


def _mean_slope(function: Callable[[Array], Array], a: Array, b: Array) -> Array:
    """The mean of f' between a and b, by a Gauss rule."""
    total = jnp.zeros_like(a - b)
    for node, weight in zip(_NODES, _WEIGHTS, strict=True):
        u = (a + b) / 2 + node * (a - b) / 2
        total = total + weight / 2 * jax.jvp(function, (u,), (jnp.ones_like(u),))[1]
    return total


def _modes(matrix: Float[Array, "n n"]) -> tuple[Array, Array]:
    t, V = jnp.linalg.eigh(matrix)
    return jnp.maximum(t, 0), V
