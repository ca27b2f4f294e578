"""Kernel matrices of any size: `gram` computes them tile by tile into a store, `Gram` reads them."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from finitewidth._base.checks import check_whole
from finitewidth._base.engines import engine_of
from finitewidth.architecture.layer import Layer
from finitewidth.architecture.mlp import MLP
from finitewidth.architecture.networks import settings_of
from finitewidth.large.solvers.packed import packed_product
from finitewidth.large.store import FORMAT, Store, Tile, fingerprint
from finitewidth.large.tile_program import write_tile
from finitewidth.statistics.wide.inputs import ArrayLike, as_inputs

NAMES = ("nngp", "ntk")
Done = Callable[[int, int], None]


class StoredKernel:
    """A symmetric matrix (n, n) in a store; whole and symmetric, although only its upper half is kept.

    `np.asarray` and slices read it, `dask` hands it to Dask, `tile` maps one tile into memory.
    """

    ndim = 2

    def __init__(self, store: Store, name: str):
        self.store, self.name = store, name
        self.n, self.size, self.dtype = store.n, store.size, store.dtype
        self.shape = (store.n, store.n)

    def tile(self, i: int, j: int) -> np.ndarray:
        """Tile (i, j), also below the diagonal; checked, read-only, in memory only where it is touched."""
        return self.store.read(self.name, Tile(i, j)) if i <= j else self.tile(j, i).T

    def product(
        self, V: Float[np.ndarray, "n k"], *, precise: bool = False, threads: int | None = None
    ) -> Float[np.ndarray, "n k"]:
        """The matrix times V; with `precise` in double precision, whatever the tiles have."""
        V = np.asarray(V, float)
        if V.ndim != 2 or len(V) != self.n:
            raise ValueError(f"V must have shape ({self.n}, k), got {V.shape}.")
        return packed_product(self, V, precise=precise, threads=threads or len(os.sched_getaffinity(0)))

    def columns(self, rows: Int[np.ndarray, " k"]) -> Float[np.ndarray, "n k"]:
        """Some columns; this touches every page of their tiles."""
        rows = np.asarray(rows)
        found = np.empty((self.n, len(rows)), self.dtype)
        for j in np.unique(rows // self.size):
            wanted = rows // self.size == j
            for i in range(self.store.count):
                block = self.tile(i, int(j))
                found[self.store.extent(i), wanted] = block[:, rows[wanted] - j * self.size]
        return found

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if copy is False:
            raise ValueError("a stored kernel cannot be an array without a copy.")
        return self[:, :].astype(dtype or self.dtype, copy=False)

    def __getitem__(self, key: Any) -> np.ndarray:
        rows, columns = (
            _range(part, self.n) for part in (key if isinstance(key, tuple) else (key, slice(None)))
        )
        found = np.empty((len(rows), len(columns)), self.dtype)
        for i in range(rows.start // self.size, -(-rows.stop // self.size)) if len(rows) else ():
            for j in range(columns.start // self.size, -(-columns.stop // self.size)) if len(columns) else ():
                a, b = _shared(rows, self.store.extent(i)), _shared(columns, self.store.extent(j))
                block = self.tile(i, j)[_moved(a, -i * self.size), _moved(b, -j * self.size)]
                found[_moved(a, -rows.start), _moved(b, -columns.start)] = block
        return found

    def __len__(self) -> int:
        return self.n

    def dask(self) -> Any:
        """The matrix as a Dask array whose chunks are the tiles, those below the diagonal mirrored."""
        import dask.array as da

        sizes = tuple(e.stop - e.start for e in map(self.store.extent, range(self.store.count)))
        return da.map_blocks(
            _dask_tile, str(self.store.path), self.name, chunks=(sizes, sizes), dtype=self.dtype
        )


def _dask_tile(path: str, name: str, block_id: tuple[int, int] = (0, 0)) -> np.ndarray:
    return np.array(StoredKernel(Store.open(Path(path)), name).tile(*block_id))


def _range(part: Any, n: int) -> range:
    if isinstance(part, slice) and part.step in (None, 1):
        return range(*part.indices(n))
    raise IndexError(f"a stored kernel is read by slices of step 1, such as k[:100, 200:], got {part!r}.")


def _shared(a: range, b: slice) -> slice:
    return slice(max(a.start, b.start), min(a.stop, b.stop))


def _moved(part: slice, by: int) -> slice:
    return slice(part.start + by, part.stop + by)


class Gram:
    """The kernels of a network on a set of inputs, in a store.

    Attributes
    ----------
    nngp, ntk
        The matrices; one that was not asked for is not there.
    store
        The directory.
    """

    nngp: StoredKernel
    ntk: StoredKernel

    def __init__(self, store: Store):
        self.store = store.path
        self._store = store
        for name in store.names:
            setattr(self, name, StoredKernel(store, name))

    def __repr__(self) -> str:
        names = " and ".join(self._store.names)
        return f"Gram({names} of {self._store.n:,} inputs, {self._store.dtype.name}, in {self.store})"

    def missing(self) -> list[tuple[int, int]]:
        """Tiles that are not there, or damaged; none after `gram`."""
        return [(tile.i, tile.j) for tile in self._store.missing()]

    def verify(self) -> None:
        """Compare every checksum; an error names the first tile that is damaged."""
        self._store.forget()
        for tile in self._store.tiles():
            for name in self._store.names:
                self._store.read(name, tile)


def gram(
    net: Layer,
    x: ArrayLike,
    store: str | os.PathLike,
    *,
    which: Sequence[str] = NAMES,
    dtype: str | None = None,
    tile: int = 2048,
    tolerance: float | None = None,
    scheduler: str | None = None,
    progress: Done | None = None,
) -> Gram:
    """NNGP kernel and NTK of inputs with themselves, of any size, in a store on disk.

    Tiles that are in the store already are checked and never computed again: a run that was interrupted goes
    on where it ended. A store of another network, of other inputs or of another precision is refused.

    Parameters
    ----------
    net
        The network; its widths do not matter here.
    x
        Inputs (points, features), or images and sequences (points, *positions, channels).
    store
        A directory, made if it is not there: a Zarr group with the arrays `x`, `nngp` and `ntk`.
    which
        The kernels to keep.
    dtype
        "float32" or "float64"; that of x by default.
    tile
        Points in one tile.
    tolerance
        As in `kernels`.
    scheduler
        Address of a Dask scheduler whose workers see the same directory; threads of this process by default.
    progress
        Called with the number of tiles that are done, and of all.

    Examples
    --------
    >>> import os, tempfile, numpy as np, finitewidth as fw
    >>> x = np.random.default_rng(0).normal(size=(50, 3))
    >>> net = fw.MLP((1, 1), "relu", 0.1, 2.0)
    >>> kept = fw.large.gram(net, x, os.path.join(tempfile.mkdtemp(), "k.zarr"), tile=16)
    >>> bool(np.allclose(kept.ntk, fw.kernels(net, x).ntk))
    True
    """
    check_whole("tile", tile)
    names = tuple(name for name in NAMES if name in which)
    if not names or len(names) != len(set(which)):
        raise ValueError(f'which must be some of "nngp" and "ntk", got {which!r}.')
    inputs = _as_type(np.asarray(as_inputs("x", x, net)), dtype)
    attributes = {
        "format": FORMAT,
        "kernels": list(names),
        "network": _settings(net),
        "sha256 of x": fingerprint(inputs),
        "points": len(inputs),
        "tile": min(tile, len(inputs)),
        "dtype": inputs.dtype.name,
        "tolerance": tolerance,
    }
    kept = Store.create(Path(store), inputs, attributes)
    missing = kept.missing()
    total = kept.count * (kept.count + 1) // 2
    report = progress or (lambda done, total: None)
    report(total - len(missing), total)
    if not missing:
        return Gram(kept)
    with kept.locked():
        kept.sweep()
        kept.check_space(len(missing))
        with engine_of(scheduler) as engine:
            path = str(kept.path.resolve())
            for done, _ in enumerate(engine.map(write_tile, missing, path, net), total - len(missing) + 1):
                report(done, total)
    return Gram(kept)


def _as_type(x: np.ndarray, dtype: str | None) -> np.ndarray:
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f'dtype must be "float32" or "float64", got {dtype!r}.')
    return x if dtype is None else x.astype(dtype)


def _settings(net: Layer) -> dict[str, Any]:
    """What the kernels depend on: neither widths nor the number of outputs."""
    settings = settings_of(net)
    if isinstance(net, MLP):
        settings |= {"hidden": len(net.hidden), "n_out": 1}
    return settings
