"""Symmetric matrices on disk: a Zarr group whose tiles are written once, whole and checked.

The group holds `x` and one array for each kernel, (n, n), in square tiles (i, j) with i <= j. A tile is a
file: its rows, raw, and a CRC-32C of four bytes, as Zarr's codecs `bytes` and `crc32c` write it. So readers
of Zarr read the arrays, and this package maps the files into memory. The attributes of the group say whose
kernels they are. They are written last: without them there is no store.
"""

import errno
import fcntl
import hashlib
import json
import os
import shutil
import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

FORMAT = 1
_CHECKSUM = 4
_WORDS = {
    "network": "another network",
    "sha256 of x": "other inputs",
    "tile": "another tile size",
    "dtype": "another precision",
    "tolerance": "another tolerance",
    "format": "another format",
}


class DamagedTileError(ValueError):
    """A tile whose file is missing, cut short or changed."""


class Tile(NamedTuple):
    """Place of a tile in the grid: row and column, row <= column."""

    i: int
    j: int


def fingerprint(x: np.ndarray) -> str:
    """SHA-256 of an array, its shape and its type."""
    x = np.ascontiguousarray(x)
    digest = hashlib.sha256(f"{x.shape}{x.dtype.str}".encode())
    digest.update(x.view(np.uint8).reshape(-1).data)
    return digest.hexdigest()


class Store:
    """A directory with tiles of the matrices `names`; use `Store.create` or `Store.open`."""

    def __init__(self, path: Path, attributes: dict[str, Any]):
        self.path = path
        self.attributes = attributes
        self.names: tuple[str, ...] = tuple(attributes["kernels"])
        self.size: int = attributes["tile"]
        self.n: int = attributes["points"]
        self.dtype = np.dtype(attributes["dtype"])
        self.count = -(-self.n // self.size)
        self._checked: set[tuple[str, Tile]] = set()

    @classmethod
    def create(cls, path: Path, x: np.ndarray, attributes: dict[str, Any]) -> "Store":
        """A store without tiles; one that is there already is opened and must be of the same kernels."""
        found = cls.open(path) if _is_store(path) else None
        if found is not None:
            found._refuse_other(attributes)
            return found
        if path.exists() and (not path.is_dir() or any(p.name != ".lock" for p in path.iterdir())):
            raise ValueError(f"{path} exists and is no store of kernels: name a new directory.")
        zarr = _zarr()
        try:
            group = zarr.open_group(str(path), mode="a", zarr_format=3)
            for name in attributes["kernels"]:
                group.create_array(
                    name,
                    shape=(len(x), len(x)),
                    chunks=(attributes["tile"],) * 2,
                    dtype=attributes["dtype"],
                    compressors=zarr.codecs.Crc32cCodec(),
                    fill_value=np.nan,
                    overwrite=True,
                )
            stored = group.create_array("x", shape=x.shape, dtype=x.dtype, chunks=x.shape, overwrite=True)
            stored[...] = x
            group.attrs.update({"finitewidth": attributes})
        except OSError as error:
            raise _refusal(path, error) from None
        return cls(path, attributes)

    @classmethod
    def open(cls, path: Path) -> "Store":
        """A store that is there."""
        if not _is_store(path):
            raise ValueError(f"{path} is no store of kernels that finitewidth wrote.")
        return cls(path, _attributes(path))

    def inputs(self) -> np.ndarray:
        """x, as it was given."""
        return np.asarray(_zarr().open_group(str(self.path), mode="r")["x"][...])

    def tiles(self) -> Iterator[Tile]:
        """All places of the upper half, row by row."""
        for i in range(self.count):
            for j in range(i, self.count):
                yield Tile(i, j)

    def file(self, name: str, tile: Tile) -> Path:
        """Where a tile is, or will be."""
        return self.path / name / "c" / str(tile.i) / str(tile.j)

    @property
    def tile_bytes(self) -> int:
        """Size of a file."""
        return self.size**2 * self.dtype.itemsize + _CHECKSUM

    def extent(self, index: int) -> slice:
        """Rows of the matrix in one row of tiles."""
        return slice(index * self.size, min((index + 1) * self.size, self.n))

    def write(self, name: str, tile: Tile, values: np.ndarray) -> None:
        """Write a tile, cropped at the edge of the matrix: all of it or nothing."""
        height, width = (e.stop - e.start for e in (self.extent(tile.i), self.extent(tile.j)))
        block = np.full((self.size, self.size), np.nan, self.dtype.newbyteorder("<"))
        block[:height, :width] = values[:height, :width]
        target = self.file(name, tile)
        partial = target.with_name(f"{target.name}.{uuid.uuid4().hex}.partial")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with partial.open("wb") as file:
                file.write(block.data)
                file.write(_checksum(block))
            partial.replace(target)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise _refusal(self.path, error) from None
        except BaseException:
            partial.unlink(missing_ok=True)
            raise

    def read(self, name: str, tile: Tile) -> np.ndarray:
        """A tile, cropped and mapped into memory; its checksum is compared the first time."""
        path = self.file(name, tile)
        try:
            whole = path.stat().st_size == self.tile_bytes
        except FileNotFoundError:
            raise DamagedTileError(self._sentence(name, tile, "is missing")) from None
        if not whole:
            raise DamagedTileError(self._sentence(name, tile, "is cut short"))
        block = np.memmap(path, self.dtype.newbyteorder("<"), "r", shape=(self.size, self.size))
        if (name, tile) not in self._checked:
            with path.open("rb") as file:
                file.seek(-_CHECKSUM, os.SEEK_END)
                known = file.read()
            if _checksum(block) != known:
                raise DamagedTileError(self._sentence(name, tile, "is damaged: its checksum is wrong"))
            self._checked.add((name, tile))
        height, width = (e.stop - e.start for e in (self.extent(tile.i), self.extent(tile.j)))
        return block[:height, :width]

    def _sentence(self, name: str, tile: Tile, what: str) -> str:
        return (
            f"tile ({tile.i}, {tile.j}) of {name} in {self.path} {what}: scale.gram with the same network, "
            "inputs and store computes it again."
        )

    def whole(self, tile: Tile) -> bool:
        """Whether a tile is there, undamaged, in all arrays."""
        try:
            for name in self.names:
                self.read(name, tile)
        except DamagedTileError:
            return False
        return True

    def missing(self) -> list[Tile]:
        """Tiles that are to be computed: not there, or damaged."""
        return [tile for tile in self.tiles() if not self.whole(tile)]

    def forget(self) -> None:
        """Compare checksums again when tiles are next read."""
        self._checked.clear()

    def sweep(self) -> None:
        """Remove what runs that were killed left half written; the caller holds the lock."""
        for name in self.names:
            for rest in (self.path / name / "c").glob("*/*.partial"):
                rest.unlink(missing_ok=True)

    def check_space(self, tiles: int) -> None:
        """Refuse to begin what the disk cannot hold."""
        needed = tiles * len(self.names) * self.tile_bytes
        free = shutil.disk_usage(self.path).free
        if needed > free:
            raise OSError(
                f"{self.path} needs {_size(needed)} more for {tiles:,} tiles, and its disk has {_size(free)} "
                "free: make room, or name a store on another disk."
            )

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the store for writing; the lock goes with the process, however it ends."""
        path = self.path / ".lock"
        try:
            file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT, 0o644), "r+")
        except OSError as error:
            raise _refusal(self.path, error) from None
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                holder = file.read().strip() or "another run"
                raise BlockingIOError(
                    f"{self.path} is held by {holder}: wait for it, or name another store."
                ) from None
            started = time.strftime("%Y-%m-%d %H:%M:%S")
            file.truncate(0)
            file.write(f"process {os.getpid()} on {socket.gethostname()} since {started}")
            file.flush()
            yield

    def _refuse_other(self, attributes: dict[str, Any]) -> None:
        for key, words in _WORDS.items():
            if self.attributes[key] != attributes[key]:
                raise ValueError(
                    f"{self.path} holds kernels of {words}: {key} is {_short(self.attributes[key])} there "
                    f"and {_short(attributes[key])} here. Name another store."
                )
        lacking = set(attributes["kernels"]) - set(self.names)
        if lacking:
            raise ValueError(
                f"{self.path} holds {' and '.join(self.names)} only, not {' and '.join(sorted(lacking))}: "
                "name another store."
            )


def _is_store(path: Path) -> bool:
    try:
        return bool(_attributes(path))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _attributes(path: Path) -> dict[str, Any]:
    return json.loads((path / "zarr.json").read_text())["attributes"]["finitewidth"]


def _checksum(block: np.ndarray) -> bytes:
    import google_crc32c

    return google_crc32c.value(np.ascontiguousarray(block)).to_bytes(_CHECKSUM, "little")


def _zarr() -> Any:
    try:
        import zarr
    except ImportError:
        raise ModuleNotFoundError("kernels on disk need Zarr: pip install 'finitewidth[scale]'.") from None
    return zarr


def _refusal(path: Path, error: OSError) -> OSError:
    """The sentence for what the system says about a store."""
    if error.errno == errno.ENOSPC:
        return OSError(
            errno.ENOSPC, f"the disk of {path} is full; finished tiles are kept: make room and run it again."
        )
    if error.errno in (errno.EACCES, errno.EROFS, errno.EPERM):
        return PermissionError(error.errno, f"{path} cannot be written to: name a store of your own.")
    return error


def _size(bytes: int) -> str:
    return f"{bytes / 1e9:.3g} GB" if bytes >= 1e8 else f"{bytes / 1e6:.3g} MB"


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 100 else f"{text[:90]}..."
