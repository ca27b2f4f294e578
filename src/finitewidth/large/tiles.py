"""The kernels of many inputs, one tile at a time."""

from collections.abc import Iterator
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from finitewidth.architecture.layer import Layer
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs, check_same_shape
from finitewidth.statistics.wide.kernels import (
    Kernels,
    Points,
    large_tile,
    prepare,
    resolved_laws,
    take,
    tile_starts,
)

_TILE = 1024


class KernelTile(NamedTuple):
    """One tile of the kernel matrices and where it belongs."""

    rows: slice
    columns: slice
    nngp: Float[np.ndarray, "rows columns"]
    ntk: Float[np.ndarray, "rows columns"]


def tile_count(n1: int, n2: int | None = None, size: int = _TILE) -> int:
    """How many tiles `kernel_tiles` yields; n2 is None for the kernel of one set with itself."""
    rows = -(-n1 // size)
    return rows * (rows + 1) // 2 if n2 is None else rows * -(-n2 // size)


def kernel_tiles(
    net: Layer,
    x1: ArrayLike,
    x2: ArrayLike | None = None,
    *,
    tolerance: float | None = None,
    size: int = _TILE,
) -> Iterator[KernelTile]:
    """The tiles of `kernels(net, x1, x2)`, row by row.

    Without `x2` only tiles on and above the diagonal are computed; the others are their transposes.
    Memory is one tile, plus what the activation's series needs per input and layer.
    """
    x1 = as_inputs("x1", x1, net)
    x2 = None if x2 is None else as_inputs("x2", x2, net).astype(x1.dtype)
    if x2 is not None:
        check_same_shape("x1", x1, "x2", x2)
    laws = resolved_laws(net, [x1] if x2 is None else [x1, x2], tolerance, None)
    prepare_points = eqx.filter_jit(prepare)
    rows, diagonal = prepare_points(net, laws, x1)
    columns = rows if x2 is None else prepare_points(net, laws, x2)[0]
    height, width = min(size, len(rows.x)), min(size, len(columns.x))
    for i in tile_starts(len(rows.x), height):
        row_points = take(rows, i, height)
        for j in tile_starts(len(columns.x), width):
            if x2 is None and j < i:
                continue
            block = _tile(net, laws, row_points, take(columns, j, width))
            if x2 is None:
                block = _with_diagonal(block, i - j, diagonal, i)
            yield KernelTile(
                slice(i, i + height), slice(j, j + width), *(np.asarray(matrix) for matrix in block)
            )


@eqx.filter_jit
def _tile(net, laws, rows: Points, columns: Points) -> Kernels:
    return large_tile(net, laws, rows, columns)


def _with_diagonal(block: Kernels, offset: int, diagonal: Kernels, start: int) -> Kernels:
    """Replace entries of a point with itself by the exact one-point values."""
    size = block.nngp.shape[0]
    if abs(offset) >= size:
        return block
    same = jnp.arange(size)[:, None] + offset == jnp.arange(size)[None, :]

    def replace(matrix: Array, exact: Array) -> Array:
        return jnp.where(same, exact[start : start + size, None], matrix)

    return Kernels(*(replace(m, d) for m, d in zip(block, diagonal, strict=True)))
