r"""Kernels between positions: which ones are kept, and how the rules of single inputs reach them.

The positions of an input, pixels or tokens, are one axis P in all kernels, in row-major order. The axis of
inputs, or of pairs of them, comes first; only in a matrix of inputs the positions do:

| | no positions | equal positions | all pairs of positions |
|---|---|---|---|
| own | (n,) | (n, P) | (n, P, P') |
| cross, a matrix of inputs | (rows, columns) | (P, rows, columns) | |
| cross, a list of pairs of inputs | (pairs,) | (pairs, P) | (pairs, P, P') |

Equal positions are enough for `Flatten`; pooling and attention read all pairs. `reads_pairs` answers from
the end of the network.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Complex, PyTree

from finitewidth.architecture.layer import Layer
from finitewidth.architecture.sequential import Sequential
from finitewidth.statistics.wide.rules.interface import cross, own
from finitewidth.statistics.wide.rules.pairs import Kernels, PairLaws, packed, unpacked

OwnRule = Callable[..., tuple[Kernels, PyTree]]
CrossRule = Callable[..., Kernels]


def own_axes(kernels: Kernels) -> int:
    """How many axes of positions the kernels of every input with itself have: 0, 1 or 2."""
    return kernels.nngp.ndim - 1


def cross_axes(kernels: Kernels, laws: PairLaws) -> int:
    """How many axes of positions the kernels of pairs of inputs have: 0, 1 or 2."""
    return kernels.nngp.ndim - (1 if laws.sites.listed else 2)


def leading_axes(laws: PairLaws) -> int:
    """How many axes of inputs come before the positions in kernels of pairs: one in a list, else none."""
    return int(laws.sites.listed)


def pointwise(own_rule: OwnRule, cross_rule: CrossRule, fence: bool = False) -> None:
    """Register a rule that acts at every position alone, written for inputs without positions.

    `own_rule` is written for kernels (n,) and `cross_rule` for (rows, columns). Both name the type of their
    layer in the annotation of the first argument. In the features, positions become the second axis. A rule
    of many operations wants a `fence`: see `fenced`.
    """

    def lifted_own(layer: Any, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
        if own_axes(below) == 0:
            return own_rule(layer, below, laws)
        if own_axes(below) == 1:
            return _own_at_positions(own_rule, layer, below, laws)
        above, features = _own_at_positions(own_rule, layer, equal_positions(below), laws)
        of_pairs = laws.at(laws.sites._replace(listed=True))
        crossed = lifted_cross(layer, below, features, features, of_pairs)
        return Kernels(*map(_with_diagonal, crossed, above)), features

    def lifted_cross(layer: Any, below: Kernels, rows: PyTree, columns: PyTree, laws: PairLaws) -> Kernels:
        rule = lambda below, rows, columns: cross_rule(layer, below, rows, columns, laws)
        axes = cross_axes(below, laws)
        if axes == 2:
            # The positions of one input are the rows, those of the other the columns.
            rule = jax.vmap(rule)
        elif laws.sites.listed:
            rule = jax.vmap(_one_pair(rule))
            rule = jax.vmap(rule) if axes == 1 else rule
        elif axes == 1:
            rule = jax.vmap(rule, (0, 1, 1))
        if axes == 0:
            return rule(below, rows, columns)
        once = lambda below: rule(below, rows, columns)
        return fenced(once, below, laws) if fence else once(below)

    own.register(_layer_of(own_rule))(lifted_own)
    cross.register(_layer_of(cross_rule))(lifted_cross)


def _layer_of(rule: Callable) -> type:
    return next(iter(rule.__annotations__.values()))


def _own_at_positions(rule: OwnRule, layer: Any, below: Kernels, laws: PairLaws) -> tuple[Kernels, PyTree]:
    """Every position of every input as an input of its own; (n, P) kernels and (n, P, ...) features."""
    shape = below.nngp.shape
    above, features = rule(layer, Kernels(*(k.reshape(-1) for k in below)), laws)
    by_input = lambda a: a.reshape(*shape, *a.shape[1:])
    return Kernels(*(k.reshape(shape) for k in above)), jax.tree.map(by_input, features)


def _one_pair(rule: CrossRule) -> CrossRule:
    """A rule of (rows, columns) as one of a single pair of inputs."""

    def single(below: Kernels, row: PyTree, column: PyTree) -> Kernels:
        alone = functools.partial(jax.tree.map, lambda a: a[None])
        above = rule(Kernels(*(k[None, None] for k in below)), alone(row), alone(column))
        return Kernels(*(k[0, 0] for k in above))

    return single


def fenced(rule: Callable[[Kernels], Kernels], below: Kernels, laws: PairLaws) -> Kernels:
    """`rule(below)`, worked out once: see `worked_out`."""
    return unpacked(worked_out(lambda array: packed(rule(unpacked(array))), packed(below), laws))


def worked_out(rule: Callable[[PyTree], PyTree], operand: PyTree, laws: PairLaws) -> PyTree:
    """`rule(operand)` as arrays in memory, worked out once.

    XLA would work out an activation anew for every shift of the convolution above it. A branch that is always
    taken, but not known to be, keeps it from looking through.
    """
    if laws.true is None:
        return rule(operand)
    blank = lambda operand: jax.tree.map(lambda a: jnp.zeros(a.shape, a.dtype), jax.eval_shape(rule, operand))
    return lax.cond(laws.true, rule, blank, operand)


def equal_positions(own: Kernels) -> Kernels:
    """Kernels (n, P, P') at P = P'."""
    return Kernels(*map(_diagonal, own))


def _diagonal(array: Array) -> Array:
    return jnp.diagonal(array, axis1=1, axis2=2)


def _with_diagonal(array: Array, diagonal: Array) -> Array:
    """(n, P, P') with its entries P = P' replaced by (n, P)."""
    index = jnp.arange(diagonal.shape[1])
    return jnp.where(index[:, None] == index, diagonal[:, :, None], array)


@functools.singledispatch
def reads_pairs(layer: Any, above: bool) -> bool:
    """Whether a layer needs the kernels between different positions, `above` if the layers above it do.

    By default it does if they do, or if any layer inside it does.
    """
    return above or any(reads_pairs(inner, False) for inner in inner_layers(layer))


@reads_pairs.register
def _(layer: Sequential, above: bool) -> bool:
    return functools.reduce(lambda needed, inner: reads_pairs(inner, needed), reversed(layer.layers), above)


def inner_layers(layer: Any) -> list[Layer]:
    """The layers that a layer is directly made of."""
    inside = jax.tree.leaves(layer, is_leaf=lambda node: isinstance(node, Layer) and node is not layer)
    return [node for node in inside if isinstance(node, Layer)]


def along(layers: Sequence[Any], laws: PairLaws) -> list[PairLaws]:
    """The laws as each of several layers, one after the other, is asked.

    A layer made of branches leaves all of them with the same pairs of positions: all if one of them reads
    them.
    """
    if len(laws.sites.entering) < 2:
        return [laws] * len(layers)
    entering, shapes = laws.sites.entering, []
    for layer in layers:
        shapes.append(entering)
        entering = layer.leaving(entering)
    needed, asked = laws.sites.pairs_above, []
    for layer, shape in zip(reversed(layers), reversed(shapes), strict=True):
        branches = bool(inner_layers(layer)) and not isinstance(layer, Sequential)
        below = reads_pairs(layer, needed)
        asked.append(laws.at(laws.sites._replace(entering=shape, pairs_above=below if branches else needed)))
        needed = below
    return asked[::-1]


def window_axes(array: Complex[Array, "..."], first: int, axes: int, positions: tuple[int, ...]) -> Array:
    """The axes P (one or two, from number `first` on) taken apart into the axes of the positions."""
    return array.reshape(*array.shape[:first], *positions * axes, *array.shape[first + axes :])


def merged_axes(array: Array, first: int, axes: int, count: int) -> Array:
    """`axes` groups of `count` axes each, from number `first` on, merged into one axis a group."""
    before, shape = array.shape[:first], array.shape[first:]
    sizes = [math.prod(shape[i * count : (i + 1) * count]) for i in range(axes)]
    return array.reshape(*before, *sizes, *shape[axes * count :])
