"""The sites of a network that JAX differentiates: one interpreter of its program serves every library."""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, PyTree

from finitewidth.measure.jax.interpreter import EVERY, Walk
from finitewidth.measure.jax.knowledge import Knowledge, Record
from finitewidth.measure.sites import Site, name_of_layer, numbered


def look(apply: Callable, params: PyTree, x: PyTree, cotangent: np.ndarray) -> tuple[Site, ...]:
    """The sites of apply(params, x), with what flows back from a cotangent (points, out)."""
    _, records, gradients = program(This(apply), params, jax.tree.map(jnp.asarray, x), jnp.asarray(cotangent))
    names = numbered(
        name_of_layer(record.parameter) + "".join(f"[{i}]" for i in record.layer) for record in records
    )
    return tuple(
        Site(
            name=name,
            kind=record.kind,
            entering=np.asarray(record.entering),
            leaving=np.asarray(record.leaving),
            gradient=_part(np.asarray(gradients[record.tap]), record.place),
            activation=record.activation,
            gate=record.gate,
            activated=None if record.activated is None else np.asarray(record.activated),
            parameter=record.parameter,
        )
        for name, record in zip(names, records, strict=True)
    )


def _part(gradient: np.ndarray, place: tuple[int, ...]) -> np.ndarray:
    return gradient[(slice(None), *(slice(None) if i == EVERY else i for i in place))]


class This:
    """A function that is compiled once: a method of a layer cannot be hashed, for the layer holds arrays."""

    def __init__(self, function: Callable):
        self.function = function

    def __hash__(self) -> int:
        return id(self.function)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, This) and other.function is self.function


@partial(jax.jit, static_argnums=0)
def program(
    apply: This, params: PyTree, x: PyTree, cotangent: Array
) -> tuple[Array, list[Record], list[Array]]:
    """Outputs (points, out), the sites, and d(u.f) / dz for every tap that they name."""
    flat, tree = jax.tree_util.tree_flatten_with_path(params)
    names = [jax.tree_util.keystr(path, simple=True, separator=".") for path, _ in flat]
    leaves = [leaf for _, leaf in flat]

    inputs, form = jax.tree.flatten(x)

    def at_one_point(leaves: list[Array], inputs: list[Array]) -> Array:
        alone = jax.tree.unflatten(form, [part[None] for part in inputs])
        return apply.function(jax.tree.unflatten(tree, leaves), alone)[0].ravel()

    first = [part[0] for part in inputs]
    closed = jax.make_jaxpr(at_one_point)(leaves, first)
    known = [Knowledge(parameter=name) for name in names] + [Knowledge(data=True)] * len(inputs)

    def interpreted(inputs: list[Array], u: Array, taps: list[Array] | None) -> tuple[Array, Any]:
        walk = Walk(taps)
        (outputs,), _ = walk.run(closed.jaxpr, closed.consts, [*leaves, *inputs], known, whole=True)
        return u @ outputs, (outputs, [found.record() for found in walk.sites], walk.tapped)

    u = cotangent.reshape(len(cotangent), -1).astype(closed.out_avals[0].dtype)
    shapes = jax.eval_shape(partial(interpreted, taps=None), first, u[0])[1][2]
    taps = [jnp.zeros(tap.shape, tap.dtype) for tap in shapes]
    derivative = jax.grad(interpreted, argnums=2, has_aux=True)
    gradients, (outputs, records, _) = jax.vmap(derivative, in_axes=(0, 0, None))(inputs, u, taps)
    return outputs, records, gradients
