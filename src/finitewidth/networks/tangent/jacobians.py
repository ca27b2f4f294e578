"""The NTK of any function of (params, x) from the Jacobians of a few inputs at a time."""

import math

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from finitewidth.networks.models import Model


def jacobian(model: Model, params: PyTree, x: Array) -> PyTree[Float[Array, "n out ..."]]:
    """Derivatives of every output at every input, one leaf per leaf of params."""

    def outputs(params: PyTree, point: Array) -> Float[Array, " out"]:
        return model(params, point[None])[0]

    return jax.vmap(jax.jacrev(outputs), (None, 0))(params, x)


def leaf_kernels(
    rates: PyTree, left: PyTree, right: PyTree, outputs: str = "all"
) -> PyTree[Float[Array, "*out n1 n2"]]:
    """Each leaf's part of the NTK between two sets of inputs, of all pairs of outputs or of equal ones."""

    def one(rate: Array, j1: Array, j2: Array) -> Float[Array, "*out n1 n2"]:
        (n1, n_out), n2 = j1.shape[:2], j2.shape[0]
        j1, j2 = (rate * j1).reshape(n1, n_out, -1), j2.reshape(n2, n_out, -1)
        if outputs == "mean":
            return j1.reshape(n1, -1) @ j2.reshape(n2, -1).T / n_out
        if outputs == "diagonal":
            return jnp.einsum("iap,jap->aij", j1, j2)
        flat = j1.reshape(n1 * n_out, -1) @ j2.reshape(n2 * n_out, -1).T
        return flat.reshape(n1, n_out, n2, n_out).transpose(1, 3, 0, 2)

    return jax.tree.map(one, rates, left, right)


def bytes_per_point(model: Model, params: PyTree, x: Array) -> int:
    """Memory that the Jacobian of one input takes while it is being made."""
    n_out = jax.eval_shape(model, params, x[:1]).shape[1]
    return 2 * n_out * sum(math.prod(jnp.shape(p)) * p.dtype.itemsize for p in jax.tree.leaves(params))
