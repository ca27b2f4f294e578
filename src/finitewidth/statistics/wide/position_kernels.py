"""Kernels of inputs with positions, images or sequences: (points, *positions, channels).

Networks that need equal positions only run on tiles (P, rows, columns). Networks with pooling or attention
run on lists of pairs of inputs, (pairs, P, P'), as many at a time as fit the cache, so that memory does not
grow with the number of inputs beyond the result and the features of each input.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int, PyTree

from finitewidth.architecture.layer import Layer
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, Sites
from finitewidth.statistics.wide.rules.positions import (
    along,
    equal_positions,
    own_axes,
    reads_pairs,
    worked_out,
)

# Complex numbers worked on at a time: they and what an activation makes of them stay in the cache.
_ENTRIES = 2**15


class Points(NamedTuple):
    """A set of inputs with everything the recursion needs to know about each of them alone."""

    x: Float[Array, "n *shape"]
    features: PyTree[Float[Array, "n ..."]]


def has_positions(x: Array) -> bool:
    """Whether inputs (points, *positions, channels) have any positions."""
    return x.ndim > 2


def needs_pairs(net: Layer) -> bool:
    """Whether some layer reads the kernels between different positions."""
    return reads_pairs(net, False)


def tile_side(x: Float[Array, "n ..."]) -> int:
    """How many rows and columns a tile of equal positions has at most."""
    return max(1, math.isqrt(_ENTRIES // _positions(x)))


def own_kernels(net: Layer, x: Float[Array, "n ..."]) -> Kernels:
    """Kernels of every input with itself, at equal positions (n, P) or at all pairs of them (n, P, P')."""
    flat = _flat(x)
    formula = "npc,nqc->npq" if needs_pairs(net) else "npc,npc->np"
    square = jnp.einsum(formula, flat, flat) / flat.shape[2]
    return Kernels(square, jnp.zeros_like(square))


def prepare_at_positions(net: Layer, laws: PairLaws, x: Float[Array, "n ..."]) -> tuple[Points, Kernels]:
    """The features of every input, and the exact output diagonals."""
    asked = laws_at(net, laws, x)
    if not needs_pairs(net):
        diagonal, features = own(net, own_kernels(net, x), asked)
        return Points(x, features), diagonal
    count = min(_listed(x), len(x))
    chunks = -(-len(x) // count)
    index = np.minimum(np.arange(chunks * count), len(x) - 1).reshape(chunks, count)
    few = lambda some: own(net, own_kernels(net, x[some]), asked)
    diagonal, features = jax.tree.map(
        lambda a: a.reshape(chunks * count, *a.shape[2:])[: len(x)], lax.map(few, jnp.asarray(index))
    )
    return Points(x, features), diagonal


def laws_at(net: Layer, laws: PairLaws, x: Array, listed: bool = False) -> PairLaws:
    """The laws as the whole network is asked."""
    return along((net,), laws.at(Sites(x.shape[1:], False, listed)))[0]


def block(net: Layer, laws: PairLaws, rows: Points, columns: Points) -> Kernels:
    """Kernels (rows, columns) of two sets of inputs."""
    shape = len(rows.x), len(columns.x)
    if needs_pairs(net):
        pairs = lambda t: (t // shape[1], t % shape[1])
        return Kernels(*(k.reshape(shape) for k in _list(net, laws, rows, columns, pairs, math.prod(shape))))
    gram = jnp.einsum("rpc,spc->prs", _flat(rows.x), _flat(columns.x)) / rows.x.shape[-1]
    below = Kernels(gram, jnp.zeros_like(gram))
    return cross(net, below, rows.features, columns.features, laws_at(net, laws, rows.x))


def symmetric_pairs(net: Layer, laws: PairLaws, points: Points, diagonal: Kernels) -> Kernels:
    """Kernels (n, n) of one set of inputs with itself from the list of its different pairs."""
    n = len(points.x)
    if n == 1:
        return Kernels(*(k[:, None] for k in diagonal))
    values = _list(net, laws, points, points, lambda t: _upper(t, n), n * (n - 1) // 2)
    index = jnp.arange(n)
    low, high = jnp.minimum(index[:, None], index), jnp.maximum(index[:, None], index)
    place = jnp.clip(low * (2 * n - low - 1) // 2 + high - low - 1, 0, n * (n - 1) // 2 - 1)
    return Kernels(
        *(jnp.where(low == high, d[:, None], v[place]) for v, d in zip(values, diagonal, strict=True))
    )


def mean_over_positions(own: Kernels) -> Kernels:
    """Kernels (n,) of every input with itself, averaged over equal positions."""
    equal = equal_positions(own) if own_axes(own) == 2 else own
    return equal if own_axes(equal) == 0 else Kernels(*(k.mean(axis=1) for k in equal))


def _list(net: Layer, laws: PairLaws, rows: Points, columns: Points, pair, count: int) -> Kernels:
    """Kernels (count,) of the pairs of inputs `pair(0)`, ..., `pair(count - 1)`, some of them at a time."""
    size = min(_listed(rows.x), count)
    asked = laws_at(net, laws, rows.x, listed=True)

    @jax.checkpoint
    def some(start: Int[Array, ""]) -> Kernels:
        # The last ones may be past the end: any pair will do there.
        row, column = pair(jnp.minimum(start + jnp.arange(size), count - 1))
        gram = jnp.einsum("bpc,bqc->bpq", _flat(rows.x[row]), _flat(columns.x[column])) / rows.x.shape[-1]
        below = Kernels(gram, jnp.zeros_like(gram))
        left, right = _chosen(rows.features, row, asked), _chosen(columns.features, column, asked)
        return cross(net, below, left, right, asked)

    found = lax.map(some, jnp.arange(0, count, size))
    return Kernels(*(k.reshape(-1)[:count] for k in found))


def _chosen(features: PyTree, index: Int[Array, " pairs"], laws: PairLaws) -> PyTree:
    """The features of some inputs, in the order of the pairs."""
    return worked_out(lambda features: jax.tree.map(lambda a: a[index], features), features, laws)


def _upper(t: Int[Array, " pairs"], n: int) -> tuple[Int[Array, " pairs"], Int[Array, " pairs"]]:
    """Row and column of entries t above the diagonal of an (n, n) matrix, counted row by row."""
    before = lambda row: row * (2 * n - row - 1) // 2
    row = ((2 * n - 1 - jnp.sqrt((2 * n - 1.0) ** 2 - 8.0 * t)) / 2).astype(t.dtype)
    row = jnp.clip(row, 0, n - 2)
    # The root is rounded: it may miss by one.
    row = jnp.where(before(row) > t, row - 1, row)
    row = jnp.where(before(row + 1) <= t, row + 1, row)
    return row, t - before(row) + row + 1


def _listed(x: Float[Array, "n ..."]) -> int:
    """How many pairs of inputs are worked on at a time between all positions."""
    return max(1, _ENTRIES // _positions(x) ** 2)


def _positions(x: Float[Array, "n ..."]) -> int:
    return math.prod(x.shape[1:-1])


def _flat(x: Float[Array, "n ..."]) -> Float[Array, "n P channels"]:
    return x.reshape(len(x), -1, x.shape[-1])
