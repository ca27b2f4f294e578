"""Derivatives of a network as dense arrays over the flat vector of all parameters."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.flatten_util import ravel_pytree


class Flat(NamedTuple):
    """Outputs as a function of the flat parameters, the parameters, and their learning rates."""

    outputs: object
    params: jax.Array
    rates: jax.Array


def flatten(net, params) -> Flat:
    theta, unravel = ravel_pytree(params)
    rates = net.learning_rates(params[0].weight.shape[1])
    spread = jax.tree.map(lambda rate, leaf: jnp.broadcast_to(rate, leaf.shape), rates, params)
    return Flat(lambda theta, x: net.apply(unravel(theta), x), theta, ravel_pytree(spread)[0])


def jacobian(flat: Flat, x):
    return jax.jit(jax.jacrev(flat.outputs))(flat.params, x)


def hessian(flat: Flat, x):
    return jax.jit(jax.hessian(flat.outputs))(flat.params, x)


def third(flat: Flat, x):
    return jax.jit(jax.jacfwd(jax.hessian(flat.outputs)))(flat.params, x)
