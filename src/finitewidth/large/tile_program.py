"""The kernels of one tile: one compiled program for all tiles of a set of inputs.

Inputs are padded to whole tiles by repeating the last one, so that all tiles have one shape. Where a tile
starts is data of the program: as a Python number it would be compiled anew for every tile.
"""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float, Int

from finitewidth._base.arrays import AnyArray
from finitewidth.architecture.layer import Layer
from finitewidth.large.store import Store, Tile
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs
from finitewidth.statistics.wide.kernels import Kernels, Points, large_tile, prepare, resolved_laws, take
from finitewidth.statistics.wide.rules.pairs import PairLaws

_KEPT = 2
# Other inputs come in multiples of so many: few shapes are few programs.
_OTHERS = 128
# Other inputs whose kernels with some of the program's are in memory at a time.
_AT_A_TIME = 1024


class KernelProgram(NamedTuple):
    """A network and inputs, prepared for tiles of one size."""

    net: Layer
    laws: PairLaws
    points: Points
    diagonal: Kernels
    size: int
    n: int

    @classmethod
    def of(cls, net: Layer, x: ArrayLike, size: int, tolerance: float | None = None) -> "KernelProgram":
        """Prepare every input once."""
        x = as_inputs("x", x, net)
        laws = resolved_laws(net, [x], tolerance, None)
        n = len(x)
        padded = jnp.concatenate([x, jnp.repeat(x[-1:], -n % size, axis=0)])
        return cls(net, laws, *eqx.filter_jit(prepare)(net, laws, padded), size, n)

    def tile(self, place: Tile) -> Kernels:
        """Both kernels of one tile, (size, size); what lies beyond the last input has no meaning."""
        corner = jnp.asarray([place.i * self.size, place.j * self.size])
        return _tile(self.net, self.laws, self.points, self.diagonal, corner, self.size)

    def columns(self, rows: Int[np.ndarray, " k"], name: str) -> Float[np.ndarray, "n k"]:
        """One kernel of all inputs with some of them."""
        padded = np.concatenate([rows, np.repeat(rows[-1:], -len(rows) % _OTHERS)])
        chosen = jax.tree.map(lambda a: a[jnp.asarray(padded)], self.points)
        found = np.empty((self.n, len(rows)), self.points.x.dtype)
        for part, block in self.strips(chosen, name):
            found[part] = block[:, : len(rows)]
        return found

    def others(self, x: Float[AnyArray, "k ..."]) -> tuple[Points, Kernels]:
        """Other inputs, prepared, padded to a few sizes, and their kernels with themselves, (k,)."""
        x = jnp.asarray(x, self.points.x.dtype)
        padded = jnp.concatenate([x, jnp.repeat(x[-1:], -len(x) % _OTHERS, axis=0)])
        points, diagonal = eqx.filter_jit(prepare)(self.net, self.laws, padded)
        return points, Kernels(*(kernel[: len(x)] for kernel in diagonal))

    def strips(self, others: Points, name: str) -> Iterator[tuple[slice, np.ndarray]]:
        """One kernel of the inputs with others, some rows at a time: the rows, and (rows, k)."""
        for start in range(0, self.n, self.size):
            rows = slice(start, min(start + self.size, self.n))
            block = _strip(self.net, self.laws, self.points, others, jnp.asarray(start), self.size)
            yield rows, np.asarray(getattr(block, name))[: rows.stop - rows.start]

    def reach(
        self,
        x: Float[AnyArray, "test ..."],
        name: str,
        coefficients: Float[np.ndarray, "n out"],
        on_rows: Callable[[float], None] = lambda share: None,
    ) -> Float[np.ndarray, "test out"]:
        """One kernel of other inputs with these, times coefficients, some of the others at a time."""
        right, parts = coefficients.astype(self.points.x.dtype), []
        for start in range(0, len(x), _AT_A_TIME):
            some = np.asarray(x[start : start + _AT_A_TIME])
            others, _ = self.others(some)
            total = np.zeros((len(some), coefficients.shape[1]))
            for rows, block in self.strips(others, name):
                total += block[:, : len(some)].T @ right[rows]
            parts.append(total)
            on_rows(min((start + _AT_A_TIME) / len(x), 1.0))
        return np.concatenate(parts)


class ComputedKernel:
    """A symmetric kernel whose tiles are computed whenever they are asked for."""

    def __init__(self, program: KernelProgram, name: str):
        self.program, self.name = program, name
        self.n, self.size, self.dtype = program.n, program.size, np.dtype(program.points.x.dtype)

    def tile(self, i: int, j: int) -> np.ndarray:
        """Rows of tile row i and columns of tile column j."""
        block = np.asarray(getattr(self.program.tile(Tile(i, j)), self.name))
        return block[: self.n - i * self.size, : self.n - j * self.size]


@eqx.filter_jit
def _tile(
    net: Layer, laws: PairLaws, points: Points, diagonal: Kernels, corner: Int[Array, "2"], size: int
) -> Kernels:
    block = large_tile(net, laws, take(points, corner[0], size), take(points, corner[1], size))
    exact = jax.tree.map(lambda d: lax.dynamic_slice_in_dim(d, corner[0], size), diagonal)
    row, column = jnp.arange(size)[:, None], jnp.arange(size)

    def symmetric(block: Kernels) -> Kernels:
        mirrored = lambda b, d: jnp.where(row < column, b, jnp.where(row > column, b.T, d[:, None]))
        return Kernels(*(mirrored(b, d) for b, d in zip(block, exact, strict=True)))

    return lax.cond(corner[0] == corner[1], symmetric, lambda block: block, block)


@eqx.filter_jit
def _strip(
    net: Layer, laws: PairLaws, points: Points, others: Points, start: Int[Array, ""], size: int
) -> Kernels:
    return large_tile(net, laws, take(points, start, size), others)


_prepared: dict[tuple, KernelProgram] = {}
_preparing = threading.Lock()


def write_tile(place: tuple[int, int], path: str, net: Layer) -> tuple[int, int]:
    """Compute one tile of a store and write it: the piece of work of a thread or of a worker."""
    store = Store.open(Path(path))
    program = _program(store, net)
    block = program.tile(Tile(*place))
    for name in store.names:
        store.write(name, Tile(*place), np.asarray(getattr(block, name)))
    return place


def _program(store: Store, net: Layer) -> KernelProgram:
    """Inputs are prepared once in each process; those of the last stores are kept."""
    settings = store.attributes
    key = (str(store.path), settings["sha256 of x"], repr(settings["network"]), store.size)
    with _preparing:
        if key not in _prepared:
            while len(_prepared) >= _KEPT:
                _prepared.pop(next(iter(_prepared)))
            _prepared[key] = KernelProgram.of(net, store.inputs(), store.size, settings["tolerance"])
        return _prepared[key]
